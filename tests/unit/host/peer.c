/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/broker.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "peer.h"

static void on_event(struct source *src, uint32_t events)
{
}

int peer_open(struct worker *w, struct tenant *t, struct worker_page *page)
{
	int pair[2];

	*w = (struct worker){.b = t->b,
			     .tenant = t,
			     .state = WORKER_SESSION,
			     .version = MSG_VERSION,
			     .count = page};
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	outbox_init(&w->out, t->b->loop, &w->ctl);
	w->out.t = t;
	cr_assert_eq(source_add(t->b->loop, &w->ctl, pair[0], EPOLLIN, on_event), 0);
	list_append(&t->workers, &w->tenant_link);
	return pair[1];
}

void peer_close(struct worker *w, int end)
{
	outbox_drop(&w->out);
	source_remove(w->b->loop, &w->ctl);
	close(end);
}

bool peer_hears(int end, uint32_t type, struct msg *ret_m)
{
	bool any = false;
	struct msg m;
	int fd0, fd1;

	while (msg_recv(end, &m, &fd0, &fd1) == 0) {
		cr_assert_eq(m.type, type);
		*ret_m = m;
		any = true;
	}
	return any;
}
