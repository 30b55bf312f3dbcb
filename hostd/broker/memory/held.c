/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A check of what worker processes really have of the device. The books believe a
 * worker's credit and what it says has moved, as far as it was granted memory; one that
 * was taken over can say that it has given back what it keeps, or take memory from a
 * driver without having asked. So what each process has is looked at every second, by
 * somebody else. Who has clearly more than was granted to it at any time of the last
 * seconds, several times in a row, is ended on the software device. On a real one the log
 * tells of it: a driver may have memory back much later than it was given back.
 *
 * Where a driver tells of processes, a worker that waits for a guest asks it for weftd,
 * which opens no device: it has met no guest, so nobody can have taken it over. On the
 * software device a worker's shared memory is what it has of it, and /proc says how much.
 * Memory that a process has and does not map is not seen there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/child/child.h"
#include "broker/loop/outbox.h"
#include "broker/memory/account.h"
#include "broker/memory/held.h"
#include "broker/memory/ledger.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "util/size.h"

#define HELD_NS NSEC_PER_SEC
/*
 * Code that a driver loads by itself is charged later, and is owed where the tenant has
 * no room for it; memory is kept for a moment between two uses; a lane's ring is shared
 * memory, too. On a large device a library's code may be larger.
 */
#define SLACK_MIN   (256ull << 20)
#define SLACK_SHARE 64

/* Returns what the process may have: what moves between device and host is, on the
 * software device, memory of the process wherever it lies. */
static uint64_t allowed(const struct worker *w)
{
	const struct tenant *t = w->tenant;
	uint64_t bytes = w->charged;

	/* Moves and frees are booked sooner than they happen. */
	for (unsigned i = 0; i < HELD_TIMES; i++)
		bytes = MAX(bytes, w->granted_most[i]);
	bytes += MAX(SLACK_MIN, w->b->device_total / SLACK_SHARE);
	if (w->b->own_memory)
		bytes += w->evicted + w->move.pool + w->host_charged;
	/* Mapped by several, charged to one of them or to the tenant. */
	if (t->n_shares)
		bytes += account_tenant(t) + t->evicted;
	return bytes;
}

/* Credit that says that much is free is taken at its word. */
static void take_back(struct worker *w, uint64_t has)
{
	if (has <= account_worker(w) + SLACK_MIN)
		return;
	account_write_begin(w->b);
	account_take_back(w);
	account_write_end(w->b);
}

/* Returns true if it had too much that often in a row just now. */
static bool is_over(struct worker *w, uint64_t has)
{
	bool over;

	take_back(w, has);
	over = has > allowed(w) && !w->ending_ns;
	memmove(&w->granted_most[1], &w->granted_most[0],
		sizeof(w->granted_most) - sizeof(w->granted_most[0]));
	w->granted_most[0] = w->charged;
	w->n_over = over ? w->n_over + 1 : 0;
	return w->n_over == HELD_TIMES;
}

void held_check(struct worker *w, uint64_t has)
{
	char a[32], c[32];

	if (!is_over(w, has))
		return;
	log_warning("tenant %s session %llu: worker %d has %s of the device, and %s were "
		    "granted to it",
		    w->tenant->name, (unsigned long long)w->session, w->child.pid,
		    size_format(has, a, sizeof(a)),
		    size_format(w->charged, c, sizeof(c)));
	if (!w->b->own_memory)
		return;
	w->why = "worker: had more memory than it may";
	account_ending(w, clock_now_ns());
	child_kill(&w->child);
}

/* ---- the software device ---- */

/* Returns 0 if there is no such process, or nobody says. */
static uint64_t shared_memory(pid_t pid)
{
	static const char key[] = "\nRssShmem:";
	char path[40], text[4096];
	_cleanup_close_ int fd = -1;
	const char *at;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return 0;
	text[n] = '\0';
	at = strstr(text, key);
	return at ? strtoull(at + strlen(key), NULL, 10) << 10 : 0;
}

static void look(struct broker *b)
{
	struct worker *w;

	list_for_each (w, &b->workers, link) {
		if (w->state == WORKER_SESSION)
			held_check(w, shared_memory(w->child.pid));
	}
}

/* ---- a driver ---- */

static void ask(struct broker *b)
{
	const struct msg m = {.type = MSG_HOLDERS};
	struct worker *w = workers_ready(b, false);

	if (w && !w->asked_holders && outbox_tell(&w->out, &m, -1, -1) == 0)
		w->asked_holders = true;
}

static int by_pid(const void *a, const void *b)
{
	const struct msg_holder *p = a, *q = b;

	return (p->pid > q->pid) - (p->pid < q->pid);
}

static void check_all(struct broker *b, struct msg_holder *h, size_t n)
{
	struct worker *w;

	qsort(h, n, sizeof(*h), by_pid);
	list_for_each (w, &b->workers, link) {
		struct msg_holder key = {.pid = (uint64_t)w->child.pid}, *is;

		if (w->state != WORKER_SESSION)
			continue;
		is = bsearch(&key, h, n, sizeof(*h), by_pid);
		held_check(w, is ? is->bytes : 0);
	}
}

int held_said(struct worker *w, unsigned n, int fd)
{
	_cleanup_free_ struct msg_holder *h = NULL;
	ssize_t size;

	if (!w->asked_holders)
		return -EPROTO;
	w->asked_holders = false;
	/* A guest may have come meanwhile. */
	if (w->state != WORKER_READY || fd < 0 || !n)
		return 0;
	h = calloc(n, sizeof(*h));
	if (!h)
		return 0;
	size = pread(fd, h, n * sizeof(*h), 0);
	if (size > 0)
		check_all(w->b, h, (size_t)size / sizeof(*h));
	return 0;
}

uint64_t held_tick(void *broker, uint64_t now_ns)
{
	struct broker *b = broker;
	if (!b->n_sessions)
		return UINT64_MAX;
	if (now_ns < b->held_at_ns)
		return b->held_at_ns;
	if (b->own_memory)
		look(b);
	else
		ask(b);
	b->held_at_ns = now_ns + HELD_NS;
	return b->held_at_ns;
}
