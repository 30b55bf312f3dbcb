/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "libvirt/note.h"
#include "libvirt/place.h"
#include "libvirt/register.h"
#include "libvirt/release.h"
#include "libvirt/vsock.h"

/* In weftd's place, which does not run, or does not know the VM. */
static void remove_window(const struct note *n)
{
	char path[160];
	struct json_object *window;

	if (!json_object_object_get_ex(n->set, "window.path", &window))
		return;
	unlink(json_object_get_string(window));
	snprintf(path, sizeof(path), PLACE_RUN "/%s.window", n->tenant);
	unlink(path);
}

int release(const char *uuid, char **ret_why)
{
	struct note n;
	int r = note_of_uuid(uuid, &n);

	*ret_why = NULL;
	note_discard(uuid);
	if (r < 0)
		return 0;
	vsock_stop(&n);
	r = register_remove(&n, ret_why);
	if (r < 0)
		remove_window(&n);
	if (r == -ENOENT)
		r = 0;
	if (r < 0) {
		n.ended = true;
		(void)note_write(&n);
	} else {
		note_forget(&n);
	}
	/* One that somebody who was killed had just begun to start (vsock_exec()). */
	vsock_stop(&n);
	note_clear(&n);
	note_fini(&n);
	return r;
}
