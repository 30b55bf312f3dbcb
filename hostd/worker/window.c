/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: memfd_create close */
#include <string.h>

#include "base/fd.h"
#include "base/log.h"
#include "worker/window.h"

/* Uses a part of the VM's window, perhaps of no size: that is for host memory alone. */
static void use_vms(struct host_window *win, const struct msg_window *c, int fd)
{
	*win = (struct host_window){
		.fd = fd,
		.key = c->key,
		.offset = c->offset,
		.size = c->size,
		.why = (enum wire_why)c->why,
	};
}

static int make(struct host_window *win, uint64_t lane_bytes, uint64_t host_bytes)
{
	*win = (struct host_window){
		.fd = fd_memfd("weft-window", lane_bytes + host_bytes)};
	if (win->fd < 0)
		return win->fd;
	win->pass_fd = true;
	win->size = lane_bytes;
	return 0;
}

void window_open(struct host_window *win, const struct msg_attach *a, int fd,
		 uint64_t lane_bytes, uint64_t host_bytes)
{
	int r = 0;

	*win = (struct host_window){.fd = -1, .why = (enum wire_why)a->window.why};
	if (fd >= 0)
		use_vms(win, &a->window, fd);
	else if (a->hello.offers & WIRE_OFFER_DESCRIPTOR)
		r = make(win, lane_bytes, host_bytes);
	if (r == 0)
		r = host_window_map(win);
	if (r == 0)
		return;
	log_warning("no window: %s", strerror(-r));
	closep(&win->fd);
	*win = (struct host_window){.fd = -1, .why = WIRE_WHY_NONE};
}
