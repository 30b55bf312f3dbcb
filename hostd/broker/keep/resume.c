/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a restart: the sessions of the books are gone on with. Each worker is asked what
 * it has (RESUME), and answers by a list that ends with RESUMED; what it has said before
 * that was for the weftd before, and what it had asked it asks again. A move goes on, and
 * its end is booked here. Until then it is charged with the most that it may have.
 *
 * Host memory lies at places in a window that sessions share, and shares are opened by
 * others than their makers. So a tenant's sessions are heard, and new ones begin, once all
 * that it had have answered; other tenants do not wait for that.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/compute/mps.h"
#include "broker/broker.h"
#include "broker/compute/pace.h"
#include "broker/compute/slices.h"
#include "broker/compute/tpcs.h"
#include "broker/child/child.h"
#include "broker/keep/books.h"
#include "broker/keep/resume.h"
#include "broker/loop/aside.h"
#include "broker/loop/loop.h"
#include "broker/loop/outbox.h"
#include "broker/memory/adopt.h"
#include "broker/memory/ledger.h"
#include "broker/share.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "ipc/page.h"
#include "util/conf.h"

/* A worker's main thread answers at once, unless something is wrong. */
#define ANSWER_NS (30 * NSEC_PER_SEC)

struct kept_fds {
	int ctl, page, pid, out;
};

/* ---- a worker ---- */

static void kept_fds_close(struct kept_fds *f)
{
	closep(&f->page);
	closep(&f->pid);
	closep(&f->out);
	aside_close(f->ctl);
}

/* Why a session cannot be gone on with; NULL: it can. */
static const char *why_not(struct broker *b, const struct book_worker *k,
			   const struct kept_fds *f)
{
	struct stat st;

	if (f->ctl < 0 || f->page < 0 || f->pid < 0 || fstat(f->page, &st) < 0 ||
	    st.st_size < (off_t)WORKER_PAGE_SIZE)
		return "nobody kept its descriptors";
	if (k->version < MSG_VERSION_OLDEST)
		return "its worker is of a version that is too old for this weftd";
	if (k->version > MSG_VERSION)
		return "its worker is of a later version than this weftd";
	if (strcmp(books_head()->device_key, b->conf->device) != 0)
		return "weftd.conf names another device";
	if (!memchr(k->tenant, '\0', sizeof(k->tenant)) || !tenant_find(b, k->tenant))
		return "its tenant is not in weftd.conf any more";
	return NULL;
}

static void describe(struct worker *w, const struct book_worker *k)
{
	w->tenant = tenant_find(w->b, k->tenant);
	w->version = k->version;
	w->child.out.budget = &w->tenant->output;
	w->session = w->child.out.session = k->session;
	w->session_of_tenant = k->session_of_tenant;
	w->out.t = w->tenant;
	w->hello = k->hello;
	w->n_passed = k->n_passed;
	w->attached_ns = k->attached_ns;
	w->slice = k->slice;
	w->in_window = k->in_window;
	memcpy(w->token, k->token, sizeof(w->token));
	memcpy(w->carrier, k->carrier, sizeof(w->carrier));
	w->carrier[sizeof(w->carrier) - 1] = '\0';
	w->hello.name[sizeof(w->hello.name) - 1] = '\0';
}

static int ask(struct worker *w)
{
	const struct msg m = {.type = MSG_RESUME, .id = (uint32_t)books_head()->times};

	w->resume_id = m.id;
	w->resume_by_ns = clock_now_ns() + ANSWER_NS;
	w->tenant->n_resuming++;
	return outbox_tell(&w->out, &m, -1, -1);
}

static int adopt(struct broker *b, struct book_worker *k, struct kept_fds *f)
{
	const struct worker_fds fds = {.ctl = f->ctl, .page = f->page};
	struct worker *w;
	int r = worker_adopt(b, &fds, &w);

	if (r < 0)
		return r;
	f->ctl = -1;
	w->kind = (enum worker_kind)MIN(k->kind, WORKER_NUM_KINDS - 1u);
	r = child_adopt(b, &w->child, worker_program(w->kind), k->pid, k->uid,
			fd_steal(&f->pid), fd_steal(&f->out), worker_exited);
	if (r < 0) {
		worker_forget(w);
		return r;
	}
	describe(w, k);
	window_take_again(&w->tenant->window, w->slice);
	if (w->kind == WORKER_SHARED)
		mps_watch(w);
	account_adopt(w, k);
	w->book = k;
	account_begin(w);
	if (ask(w) < 0)
		child_kill(&w->child);
	return 0;
}

/* Returns true if the session goes on. */
static bool take_over(struct broker *b, struct book_worker *k)
{
	struct kept_fds f = {
		.ctl = book_worker_fd(k, "ctl"),
		.page = book_worker_fd(k, "page"),
		.pid = book_worker_fd(k, "pid"),
		.out = book_worker_fd(k, "out"),
	};
	const char *why = why_not(b, k, &f);
	int pid = f.pid < 0 ? -1 : fcntl(f.pid, F_DUPFD_CLOEXEC, 0);
	int r = why ? 0 : adopt(b, k, &f);

	if (why || r < 0) {
		log_warning(
			"tenant %.*s session %" PRIu64 ": ended at the restart of weftd: "
			"%s",
			CONF_NAME_MAX, k->tenant, k->session, why ? why : strerror(-r));
		if (pid >= 0)
			(void)syscall(SYS_pidfd_send_signal, pid, SIGKILL, NULL, 0);
		book_worker_drop(k);
	}
	closep(&pid);
	kept_fds_close(&f);
	return !why && r == 0;
}

/* ---- all of them ---- */

static void know_device(struct broker *b)
{
	const struct book_head *h = books_head();

	b->own_memory = h->own_memory;
	b->overhead = h->overhead;
	memcpy(b->device_name, h->device, sizeof(b->device_name));
	b->device_name[sizeof(b->device_name) - 1] = '\0';
	account_open(b, h->memory_bytes);
}

static struct worker *by_key(const struct broker *b, uint64_t key)
{
	struct worker *w;

	list_for_each (w, &b->workers, link) {
		if (w->book && w->book->key == key)
			return w;
	}
	return NULL;
}

static void take_over_shares(struct broker *b)
{
	struct book_share *k;
	struct tenant *t;

	for (unsigned i = 0; (k = books_share(i)); i++) {
		if (!k->used)
			continue;
		t = memchr(k->tenant, '\0', sizeof(k->tenant)) ? tenant_find(b, k->tenant)
							       : NULL;
		if (!t || share_adopt(t, k, by_key(b, k->maker)) < 0)
			book_share_drop(k);
	}
	list_for_each (t, &b->tenants, link) {
		if (!t->n_resuming)
			share_adopted(t);
	}
}

unsigned resume_all(struct broker *b)
{
	struct book_head *h = books_head();
	struct book_worker *k;
	unsigned n = 0;

	if (!h)
		return 0;
	if (h->memory_bytes)
		know_device(b);
	b->next_session = h->next_session;
	b->gpu_us = h->gpu_us;
	b->draining = h->draining;
	for (unsigned i = 0; (k = books_worker(i)); i++)
		n += k->key && take_over(b, k);
	take_over_shares(b);
	memset(h->device_key, 0, sizeof(h->device_key));
	memcpy(h->device_key, b->conf->device,
	       strnlen(b->conf->device, sizeof(h->device_key) - 1));
	if (n)
		log_info("goes on with %u sessions of the weftd before it", n);
	return n;
}

/* ---- the answers ---- */

static void let_on(struct tenant *t)
{
	struct worker *w;

	if (--t->n_resuming)
		return;
	share_adopted(t);
	list_for_each (w, &t->workers, tenant_link) {
		if (w->is_held_up && source_resume(w->b->loop, &w->ctl, EPOLLIN) == 0)
			w->is_held_up = false;
	}
	t->b->serve_guests(t->b);
}

static int resumed(struct worker *w, const struct msg_resumed *m)
{
	struct tenant *t = w->tenant;
	int r = 0;

	/* Without a session it has not heard of its guest, who asks again. */
	if (m->session && m->session != w->session)
		return -EPROTO;
	if (!m->session)
		return -ESTALE;
	share_told(w);
	r = account_resumed(w, m);
	if (r < 0)
		return r;
	w->resume_id = 0;
	w->cannot_move = !m->can_move;
	/* Host memory is kept ready as the weftd before said. */
	if (m->can_move)
		(void)outbox_tell(&w->out, &(struct msg){.type = MSG_PREALLOC}, -1, -1);
	log_debug("tenant %s session %" PRIu64 ": goes on", t->name, w->session);
	if (t->n_resuming > 1 && source_pause(w->b->loop, &w->ctl) == 0)
		w->is_held_up = true;
	let_on(t);
	slices_due(w->b);
	w->slice_unsure = w->tpcs_unsure = w->pace_unsure = true;
	tpcs_due(w->b);
	pace_due(w->b);
	return 0;
}

int resume_said(struct worker *w, const struct msg *m, int *fd)
{
	if (m->id != w->resume_id)
		return 0;
	switch (m->type) {
	case MSG_HAS_HOST:
		return account_host_adopt(w, m->has_host.window_offset,
					  m->has_host.bytes);
	case MSG_HAS_SHARE:
		return share_tell(w, &m->ipc_export, fd);
	case MSG_HAS_OPEN:
		return share_tell_open(w, &m->has_open);
	case MSG_RESUMED:
		return resumed(w, &m->resumed);
	default:
		return 0;
	}
}

void resume_end(struct worker *w)
{
	w->resume_id = 0;
	let_on(w->tenant);
}

uint64_t resume_tick(void *broker, uint64_t now_ns)
{
	struct broker *b = broker;
	uint64_t next = UINT64_MAX;
	struct worker *w;

	list_for_each (w, &b->workers, link) {
		if (!w->resume_id)
			continue;
		if (now_ns >= w->resume_by_ns && !w->why) {
			w->why = "worker: did not say what it has";
			account_ending(w, now_ns);
			child_kill(&w->child);
		}
		if (!w->why)
			next = MIN(next, w->resume_by_ns);
	}
	return next;
}
