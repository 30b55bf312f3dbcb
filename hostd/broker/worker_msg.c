/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of workers that serve a session, and the answers. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/compute/pace.h"
#include "broker/compute/shared.h"
#include "broker/compute/slices.h"
#include "broker/compute/tpcs.h"
#include "broker/child/output.h"
#include "broker/operator/gpu_time.h"
#include "broker/keep/books.h"
#include "broker/loop/outbox.h"
#include "broker/memory/account_host.h"
#include "broker/memory/held.h"
#include "broker/memory/ledger.h"
#include "broker/memory/reclaim.h"
#include "broker/memory/waiters.h"
#include "broker/share.h"
#include "broker/tenant.h"
#include "broker/worker_msg.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "ipc/page.h"
#include "ipc/share.h"
#include "policies/time.h"

/* Returns an answer to m, in which nothing stands yet. */
static struct msg answer_to(const struct msg *m)
{
	return (struct msg){.type = msg_answer(m->type), .id = m->id};
}

static int answer_memory(struct worker *w, const struct msg *m)
{
	struct msg a = answer_to(m);

	account_left(w->tenant, &a.memory_left.left, &a.memory_left.total);
	return outbox_tell(&w->out, &a, -1, -1);
}

static int answer_host(struct worker *w, const struct msg *m)
{
	struct msg a = answer_to(m);

	a.host_charged.result = account_host_charge(w, m->host_charge.bytes,
						    &a.host_charged.window_offset);
	return outbox_tell(&w->out, &a, -1, -1);
}

static int answer_wmem(struct worker *w, const struct msg *m)
{
	struct msg a = answer_to(m);

	a.wmem_charged.result = account_wmem_charge(w, m->wmem_charge.bytes);
	return outbox_tell(&w->out, &a, -1, -1);
}

/* As a driver, which lists processes that have a context or draw, and not monitoring ones. */
static void describe_tenant(const struct tenant *t, struct msg_tenant *ret)
{
	uint32_t busy = 0, memory = 0;
	const struct worker *w;

	list_for_each (w, &t->workers, tenant_link) {
		unsigned n = ret->n_processes;
		bool draws = w->kind == WORKER_GRAPHICS;

		if (n == MSG_PROCESSES_MAX ||
		    (!draws && !atomic_load(&w->count->computes)))
			continue;
		ret->processes[n].pid = w->hello.pid;
		ret->processes[n].draws = draws;
		ret->processes[n].session = w->session_of_tenant;
		/* For a program it is in use wherever it lies. */
		ret->processes[n].memory = account_worker(w) + w->evicted;
		ret->processes[n].busy_percent = gpu_busy(w);
		ret->processes[n].memory_percent = gpu_memory_busy(w);
		busy += ret->processes[n].busy_percent;
		memory += ret->processes[n].memory_percent;
		ret->n_processes++;
	}
	ret->busy_percent = MIN(busy, 100u);
	ret->memory_percent = MIN(memory, 100u);
}

/* Tells an answer with a descriptor or, if there are too many, the result of that; *result
 * is the answer's. */
static int answer_with(struct worker *w, const struct msg *a, int32_t *result, int fd)
{
	int r = outbox_tell(&w->out, a, fd, -1);

	if (r != -EMFILE)
		return r;
	*result = r;
	return outbox_tell(&w->out, a, -1, -1);
}

/* Too long for a message: a file with the answer goes along. */
static int answer_tenant(struct worker *w, const struct msg *m)
{
	struct msg a = answer_to(m);
	struct msg_tenant t = {0};
	_cleanup_close_ int fd = -1;

	describe_tenant(w->tenant, &t);
	fd = fd_memfd("weft-tenant", sizeof(t));
	if (fd < 0 || pwrite(fd, &t, sizeof(t), 0) != sizeof(t))
		a.tenant_usage.result = -ENOMEM;
	return answer_with(w, &a, &a.tenant_usage.result,
			   a.tenant_usage.result ? -1 : fd);
}

static int answer_export(struct worker *w, const struct msg *m, int *fd)
{
	const struct msg_ipc_export *e = &m->ipc_export;
	struct msg a = answer_to(m);
	struct share_part x = {.kind = e->kind,
			       .part = e->part,
			       .n_parts = e->n_parts,
			       .bytes = e->bytes,
			       .evicted = e->evicted};

	memcpy(a.ipc_exported.name, e->name, sizeof(a.ipc_exported.name));
	a.ipc_exported.result = share_export(w, &x, *fd, a.ipc_exported.name);
	if (a.ipc_exported.result == 0)
		fd_steal(fd);
	return outbox_tell(&w->out, &a, -1, -1);
}

static int answer_open(struct worker *w, const struct msg *m)
{
	struct msg a = answer_to(m);
	struct share_part x = {
		.kind = m->ipc_open.kind, .part = m->ipc_open.part, .fd = -1};

	a.ipc_opened.result = share_open(w, m->ipc_open.name, &x);
	a.ipc_opened.bytes = x.bytes;
	a.ipc_opened.n_parts = x.n_parts;
	return answer_with(w, &a, &a.ipc_opened.result, x.fd);
}

/* Drops a share, then answers: nobody whom the worker's program tells finds it. */
static int answer_drop(struct worker *w, const struct msg *m)
{
	const struct msg a = answer_to(m);

	share_drop(w, m->ipc_drop.name);
	return outbox_tell(&w->out, &a, -1, -1);
}

/* Once; operators' terminals get to see it. */
static int note_carrier(struct worker *w, const char *carrier)
{
	if (*w->carrier)
		return -EPROTO;
	snprintf(w->carrier, sizeof(w->carrier), "%.20s", *carrier ? carrier : "?");
	clean_text(w->carrier);
	if (w->book)
		memcpy(w->book->carrier, w->carrier, sizeof(w->book->carrier));
	if (log_limit_ok(&w->tenant->session_limit, SESSION_LINES))
		log_info("tenant %s session %llu: over %s", w->tenant->name,
			 (unsigned long long)w->session, w->carrier);
	return 0;
}

/* Where all went until now, those who are to give for it may have to stop first. */
static int asks(struct worker *w, const struct msg *m)
{
	uint64_t now_ns = clock_now_ns();
	int r;

	if (m->type == MSG_NEED)
		r = waiters_need(w, m->id, m->need.bytes, now_ns);
	else if (m->charge.spare)
		r = waiters_charge_spare(w, m->id, m->charge.bytes, now_ns);
	else
		r = waiters_charge(w, m->id, m->charge.bytes, m->charge.allow_spill,
				   now_ns);
	if (w->n_waiters && w->b->time->by_memory && !w->b->pace.turns)
		pace_due(w->b);
	return r;
}

int worker_said(struct worker *w, const struct msg *m, int *fd)
{
	if (m->type == MSG_HOLDERS_LIST)
		return held_said(w, m->holders_list.n, *fd);
	if (m->type == MSG_TPC_MAP && w->state == WORKER_STARTING)
		return tpcs_found(w->b, &m->tpc_map);
	if (w->state != WORKER_SESSION)
		return -EPROTO;
	/* The rest was for another weftd, or will be said again. */
	if (w->resume_id && m->type != MSG_OPENED && m->type != MSG_ENDING &&
	    m->type != MSG_LOST)
		return w->b->resume_said(w, m, fd);
	switch (m->type) {
	case MSG_CHARGE:
	case MSG_NEED:
		return asks(w, m);
	case MSG_MAKE_RESIDENT:
		return waiters_make_resident(w, m->id, m->make_resident.bytes,
					     clock_now_ns());
	case MSG_LEFT:
		return reclaim_left(w, m->id, m->left.bytes, clock_now_ns());
	case MSG_RECLAIMED:
		return reclaim_ended(w, m->id, &m->moved, clock_now_ns());
	case MSG_RESTORED:
		return reclaim_returned(w, m->id, &m->moved, clock_now_ns());
	case MSG_QUIESCED:
		return reclaim_quiesced(w, m->quiesced.result, clock_now_ns());
	case MSG_EVICTED_FREED:
		evicted_freed(w, m->evicted_freed.bytes);
		return 0;
	case MSG_HOST_CHARGE:
		return answer_host(w, m);
	case MSG_WMEM_CHARGE:
		return answer_wmem(w, m);
	case MSG_HOST_UNCHARGE:
		account_host_uncharge(w, m->host_uncharge.window_offset,
				      m->host_uncharge.bytes);
		return 0;
	case MSG_MEMORY:
		return answer_memory(w, m);
	case MSG_TENANT:
		return answer_tenant(w, m);
	case MSG_IPC_EXPORT:
		return answer_export(w, m, fd);
	case MSG_IPC_OPEN:
		return answer_open(w, m);
	case MSG_IPC_CLOSE:
		share_close(w, m->ipc_close.name);
		return 0;
	case MSG_IPC_DROP:
		return answer_drop(w, m);
	case MSG_ALIVE:
		workers_probed(w, m->id);
		return 0;
	case MSG_ENDING:
		account_ending(w, clock_now_ns());
		reclaim_ending(w, clock_now_ns());
		workers_probed(w, w->asked);
		return 0;
	case MSG_LOST:
		return shared_lost(w);
	case MSG_COMPUTES:
		slices_due(w->b);
		pace_due(w->b);
		return 0;
	case MSG_OPENED:
		return note_carrier(w, m->opened.carrier);
	default:
		return -EPROTO;
	}
}
