/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: recvmsg poll epoll_ctl close */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/fd.h"
#include "worker/arrival.h"

struct arrival {
	int from, window_fd;
	struct msg m;
};

static void arrival_free(struct arrival *p)
{
	closep(&p->from);
	closep(&p->window_fd);
	free(p);
}

int arrivals_add(struct arrivals *a, const struct msg *m, int from, int window_fd)
{
	struct epoll_event ev = {.events = EPOLLIN};
	struct arrival *p = malloc(sizeof(*p));
	unsigned i = 0;

	if (!p) {
		closep(&from);
		closep(&window_fd);
		return -ENOMEM;
	}
	*p = (struct arrival){.from = from, .window_fd = window_fd, .m = *m};
	while (i < ARRIVALS_MAX && a->of[i])
		i++;
	if (i == ARRIVALS_MAX) {
		arrival_free(p);
		return -EAGAIN;
	}
	ev.data.u64 = a->first_event + i;
	if (epoll_ctl(a->epoll, EPOLL_CTL_ADD, from, &ev) < 0) {
		int r = -errno;

		arrival_free(p);
		return r;
	}
	a->of[i] = p;
	return 0;
}

int arrivals_take(struct arrivals *a, unsigned i, struct msg *ret_m, int *ret_sock,
		  int *ret_window_fd)
{
	struct arrival *p = i < ARRIVALS_MAX ? a->of[i] : NULL;
	struct pollfd pfd = {.events = POLLIN};
	int sock = -1, other = -1, r;
	struct msg m;

	if (!p)
		return -EAGAIN;
	/* An event of one that was here before may come late. */
	pfd.fd = p->from;
	if (poll(&pfd, 1, 0) < 1)
		return -EAGAIN;
	r = msg_recv(p->from, &m, &sock, &other);
	closep(&other);
	if (r == 0 && m.type != MSG_GUEST)
		closep(&sock);
	a->of[i] = NULL;
	*ret_m = p->m;
	*ret_sock = r == 0 && m.type == MSG_GUEST ? sock : -1;
	*ret_window_fd = fd_steal(&p->window_fd);
	arrival_free(p);
	return 0;
}
