/* SPDX-License-Identifier: Apache-2.0 */
/* domain-xml: libvirt's domains; asks nobody. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/macros.h"
#include "libvirt/paste.h"
#include "libvirt/sentence.h"
#include "tools/ctl/ctl.h"

static int set_keys(struct gpu *g, int n, char **keys, char **ret_why)
{
	int r = 0;

	for (int i = 0; i < n && r == 0; i++) {
		char *eq = strchr(keys[i], '=');

		if (!eq) {
			*ret_why = sentence("\"%s\" is no KEY=VALUE, such as "
					    "memory.max=4G",
					    keys[i]);
			return -EINVAL;
		}
		*eq = '\0';
		r = gpu_set(g, keys[i], eq + 1, ret_why);
	}
	return r;
}

static int write_new(const char *name, int n_keys, char **keys, char **ret_why)
{
	struct domain d;
	int r = paste_start(name, &d, ret_why);

	if (r == 0)
		r = set_keys(&d.gpu, n_keys, keys, ret_why);
	if (r == 0)
		r = paste_apply(&d, ret_why);
	if (r == 0)
		r = paste_print(&d, stdout);
	domain_fini(&d);
	return r;
}

static int change(int n_keys, char **keys, bool remove, char **ret_why)
{
	_cleanup_free_ char *text = malloc(DOMAIN_MAX + 1);
	struct domain d;
	int r;

	if (!text)
		return -ENOMEM;
	r = domain_read(text, fread(text, 1, DOMAIN_MAX + 1, stdin), &d, ret_why);
	if (r == 0)
		r = set_keys(&d.gpu, n_keys, keys, ret_why);
	if (r == 0 && remove)
		paste_remove(&d);
	else if (r == 0)
		r = paste_apply(&d, ret_why);
	if (r == 0)
		r = paste_print(&d, stdout);
	domain_fini(&d);
	return r;
}

int ctl_domain_xml(const struct ctl *ctl, int argc, char **argv)
{
	_cleanup_free_ char *why = NULL;
	int r;

	if (ctl->apply || ctl->undo)
		r = change(argc - 1, argv + 1, ctl->undo, &why);
	else if (argc > 1)
		r = write_new(argv[1], argc - 2, argv + 2, &why);
	else
		return CTL_USAGE;
	return r < 0 ? ctl_failed(ctl, "%s", why ? why : strerror(-r)) : 0;
}
