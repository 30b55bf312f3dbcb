/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: sendmsg futex read close */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/macros.h"
#include "ipc/share.h"
#include "worker/broker_link.h"
#include "worker/holdings.h"

/* Time after a refusal of worker memory for which weftd is not asked for as much
 * again. */
#define REFUSED_NS NSEC_PER_MSEC

struct question {
	const struct msg *asked;
	int sent_fd; /* -1: none */
	uint32_t id, answer_type;
	bool answered;
	struct msg answer;
	int fd; /* that came with it, or -1 */
	struct list link;
};

struct broker_link {
	int sock;
	struct credit *credit;                      /* NULL: not yet */
	struct credit *wmem;                        /* likewise */
	_Atomic uint64_t refused_ns, refused_bytes; /* of it, last */
	/* How often weftd was told of memory that is freed; and, of these, what it had
	 * looked at when it answered last. The credit does not know of others. */
	_Atomic uint64_t told, heard;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct list questions;
	uint32_t next_id;
	struct holdings has;
};

int broker_link_new(int sock, struct broker_link **ret_link)
{
	struct broker_link *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->sock = sock;
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->cond, NULL);
	list_init(&b->questions);
	holdings_init(&b->has);
	*ret_link = b;
	return 0;
}

/* Returns an id that is not 0. */
static uint32_t next_id_locked(struct broker_link *b)
{
	b->next_id += !(b->next_id + 1) + 1;
	return b->next_id;
}

uint32_t broker_link_id(struct broker_link *b)
{
	uint32_t id;

	pthread_mutex_lock(&b->lock);
	id = next_id_locked(b);
	pthread_mutex_unlock(&b->lock);
	return id;
}

int broker_link_say(struct broker_link *b, const struct msg *m)
{
	int r;

	pthread_mutex_lock(&b->lock);
	holdings_said(&b->has, m);
	r = msg_send(b->sock, m, -1, -1);
	pthread_mutex_unlock(&b->lock);
	return r;
}

/* Fills q->answer. The process ends with weftd, so an answer always comes: that of the
 * one that was asked, or of the next, which is asked again. */
static int ask_with(struct broker_link *b, struct msg *m, int fd, struct question *q)
{
	int r;

	q->asked = m;
	q->sent_fd = fd;
	q->answer_type = msg_answer(m->type);
	q->answered = false;
	q->fd = -1;
	pthread_mutex_lock(&b->lock);
	q->id = m->id = next_id_locked(b);
	list_append(&b->questions, &q->link);
	r = msg_send(b->sock, m, fd, -1);
	while (r == 0 && !q->answered)
		pthread_cond_wait(&b->cond, &b->lock);
	list_remove(&q->link);
	pthread_mutex_unlock(&b->lock);
	return r;
}

static int ask(struct broker_link *b, struct msg *m, struct question *q)
{
	return ask_with(b, m, -1, q);
}

void broker_link_set_credit(struct broker_link *b, struct credit *credit)
{
	b->credit = credit;
}

void broker_link_set_wmem(struct broker_link *b, struct credit *credit)
{
	b->wmem = credit;
}

static int link_charge(void *arg, uint64_t bytes)
{
	struct msg m = {.type = MSG_CHARGE, .charge.bytes = bytes};
	struct broker_link *b = arg;
	struct question q;
	int r;

	if (b->credit && credit_take(b->credit, bytes))
		return 0;
	r = ask(b, &m, &q);
	return r < 0 || q.answer.charged.result < 0 ? -EDQUOT : 0;
}

static int link_charge_part(void *arg, uint64_t bytes, bool spare, uint64_t *ret_evicted)
{
	struct broker_link *b = arg;
	struct msg m = {
		.type = MSG_CHARGE,
		.charge = {.bytes = bytes, .allow_spill = 1, .spare = (uint32_t)spare}};
	struct question q;
	int r;

	*ret_evicted = 0;
	if (b->credit && credit_take(b->credit, bytes))
		return 0;
	r = ask(b, &m, &q);
	if (r < 0 || q.answer.charged.result < 0)
		return -EDQUOT;
	*ret_evicted = q.answer.charged.evicted;
	return 0;
}

static void link_uncharge(void *arg, uint64_t bytes)
{
	struct broker_link *b = arg;

	if (b->credit)
		credit_put(b->credit, bytes);
}

static void link_evicted_uncharge(void *arg, uint64_t bytes)
{
	struct msg m = {.type = MSG_EVICTED_FREED, .evicted_freed.bytes = bytes};
	struct broker_link *b = arg;

	(void)broker_link_say(b, &m);
	atomic_fetch_add(&b->told, 1);
}

static int link_host_charge(void *arg, uint64_t bytes, uint64_t *ret_offset)
{
	struct msg m = {.type = MSG_HOST_CHARGE, .host_charge.bytes = bytes};
	struct question q;
	int r = ask(arg, &m, &q);

	if (r < 0)
		return -EDQUOT;
	/* With the VM's window full, memory that is not shared will do. */
	if (q.answer.host_charged.result == -ENOSPC)
		return -EOPNOTSUPP;
	if (q.answer.host_charged.result < 0)
		return -EDQUOT;
	*ret_offset = q.answer.host_charged.window_offset;
	return 0;
}

static void link_host_uncharge(void *arg, uint64_t offset, uint64_t bytes)
{
	struct msg m = {.type = MSG_HOST_UNCHARGE,
			.host_uncharge = {.bytes = bytes, .window_offset = offset}};

	(void)broker_link_say(arg, &m);
}

static int link_wmem_charge(void *arg, uint64_t bytes)
{
	struct msg m = {.type = MSG_WMEM_CHARGE, .wmem_charge.bytes = bytes};
	struct broker_link *b = arg;
	struct question q;
	int r;

	if (!b->wmem || credit_take(b->wmem, bytes))
		return 0;
	if (bytes >= atomic_load(&b->refused_bytes) &&
	    clock_now_ns() - atomic_load(&b->refused_ns) < REFUSED_NS)
		return -EDQUOT;
	r = ask(b, &m, &q);
	if (r == 0 && q.answer.wmem_charged.result == 0)
		return 0;
	atomic_store(&b->refused_bytes, bytes);
	atomic_store(&b->refused_ns, clock_now_ns());
	return -EDQUOT;
}

static void link_wmem_uncharge(void *arg, uint64_t bytes)
{
	struct broker_link *b = arg;

	if (b->wmem)
		credit_put(b->wmem, bytes);
}

static int link_memory(void *arg, uint64_t *ret_free, uint64_t *ret_total)
{
	struct msg m = {.type = MSG_MEMORY};
	struct broker_link *b = arg;
	uint64_t told = atomic_load(&b->told);
	struct question q;
	int r;

	if (b->credit && told == atomic_load(&b->heard) &&
	    credit_look(b->credit, ret_free, ret_total))
		return 0;
	r = ask(b, &m, &q);
	if (r < 0)
		return r;
	atomic_store(&b->heard, told);
	*ret_free = q.answer.memory_left.left;
	*ret_total = q.answer.memory_left.total;
	return 0;
}

static int link_tenant(void *arg, struct msg_tenant *ret_tenant)
{
	struct msg m = {.type = MSG_TENANT};
	struct question q;
	int r = ask(arg, &m, &q);

	if (r < 0)
		return r;
	if (q.fd < 0)
		return -ENODATA;
	r = fd_read_full(q.fd, ret_tenant, sizeof(*ret_tenant));
	close(q.fd);
	return r;
}

static int link_ipc_export(void *arg, const struct share_part *x, uint8_t *name)
{
	struct msg m = {.type = MSG_IPC_EXPORT,
			.ipc_export = {.kind = x->kind,
				       .part = x->part,
				       .n_parts = x->n_parts,
				       .evicted = x->evicted,
				       .bytes = x->bytes}};
	const struct msg_ipc_exported *a;
	struct question q;
	int r;

	if (x->part)
		memcpy(m.ipc_export.name, name, sizeof(m.ipc_export.name));
	r = ask_with(arg, &m, x->fd, &q);
	if (r < 0)
		return r;
	a = &q.answer.ipc_exported;
	if (a->result < 0)
		return a->result;
	if (!x->part)
		memcpy(name, a->name, sizeof(a->name));
	return 0;
}

static int link_ipc_open(void *arg, const uint8_t *name, struct share_part *x)
{
	struct msg m = {.type = MSG_IPC_OPEN,
			.ipc_open = {.kind = x->kind, .part = x->part}};
	const struct msg_ipc_opened *a;
	struct question q;
	int r;

	memcpy(m.ipc_open.name, name, sizeof(m.ipc_open.name));
	r = ask(arg, &m, &q);
	if (r < 0)
		return r;
	a = &q.answer.ipc_opened;
	if (a->result < 0) {
		closep(&q.fd);
		return a->result;
	}
	x->fd = q.fd;
	x->bytes = a->bytes;
	x->n_parts = a->n_parts;
	return 0;
}

static void link_ipc_close(void *arg, const uint8_t *name)
{
	struct msg m = {.type = MSG_IPC_CLOSE};

	memcpy(m.ipc_close.name, name, sizeof(m.ipc_close.name));
	(void)broker_link_say(arg, &m);
}

static void link_ipc_drop(void *arg, const uint8_t *name)
{
	struct msg m = {.type = MSG_IPC_DROP};
	struct question q;

	memcpy(m.ipc_drop.name, name, sizeof(m.ipc_drop.name));
	(void)ask(arg, &m, &q);
}

struct accounts broker_link_ops(struct broker_link *b)
{
	return (struct accounts){
		.charge = link_charge,
		.charge_part = link_charge_part,
		.uncharge = link_uncharge,
		.evicted_uncharge = link_evicted_uncharge,
		.wmem_charge = link_wmem_charge,
		.wmem_uncharge = link_wmem_uncharge,
		.memory = link_memory,
		.tenant = link_tenant,
		.host_charge = link_host_charge,
		.host_uncharge = link_host_uncharge,
		.ipc_export = link_ipc_export,
		.ipc_open = link_ipc_open,
		.ipc_close = link_ipc_close,
		.ipc_drop = link_ipc_drop,
		.arg = b,
	};
}

int broker_link_answer(struct broker_link *b, const struct msg *m, int fd)
{
	struct question *q;
	int r = -EPROTO;

	pthread_mutex_lock(&b->lock);
	list_for_each (q, &b->questions, link) {
		if (q->id != m->id || q->answer_type != m->type || q->answered)
			continue;
		holdings_answered(&b->has, q->asked, q->sent_fd, m);
		q->answer = *m;
		q->fd = fd;
		q->answered = true;
		r = 0;
		break;
	}
	pthread_cond_broadcast(&b->cond);
	pthread_mutex_unlock(&b->lock);
	if (r < 0)
		closep(&fd);
	return r;
}

void broker_link_told(struct broker_link *b, const struct msg *m)
{
	pthread_mutex_lock(&b->lock);
	holdings_told(&b->has, m);
	pthread_mutex_unlock(&b->lock);
}

int broker_link_resume(struct broker_link *b, uint32_t id, uint64_t session,
		       bool can_move)
{
	struct question *q;
	int r;

	pthread_mutex_lock(&b->lock);
	r = holdings_tell(&b->has, b->sock, id, session, can_move);
	list_for_each (q, &b->questions, link) {
		if (r == 0 && !q->answered)
			r = msg_send(b->sock, q->asked, q->sent_fd, -1);
	}
	pthread_mutex_unlock(&b->lock);
	return r;
}
