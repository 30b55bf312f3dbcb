/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of what sessions share: whose they are, how long they last, and who pays; then
 * random sequences of exports, opens, frees and ends against a model that adds up.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/list.h"
#include "broker/broker.h"
#include "broker/memory/ledger.h"
#include "broker/share.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/msg.h"
#include "ipc/page.h"
#include "ipc/share.h"

#define MIB     (1ull << 20)
#define TENANTS 2
#define WORKERS 6
#define SHARES  24

static struct broker b;
static struct tenant tenants[TENANTS];
static struct worker workers[WORKERS];
static struct worker_page pages[WORKERS];

static void begin_worker(unsigned i)
{
	struct worker *w = &workers[i];

	memset(&pages[i], 0, sizeof(pages[i]));
	*w = (struct worker){.b = &b, .count = &pages[i], .state = WORKER_READY};
	b.n_ready++;
	list_append(&b.workers, &w->link);
	cr_assert_eq(account_attach(w, &tenants[i % TENANTS]), 0);
	w->state = WORKER_SESSION;
	account_begin(w);
}

static void end_worker(unsigned i)
{
	share_end(&workers[i]);
	account_end(&workers[i]);
	list_remove(&workers[i].link);
}

static void reset(void)
{
	memset(&b, 0, sizeof(b));
	memset(tenants, 0, sizeof(tenants));
	list_init(&b.tenants);
	list_init(&b.workers);
	list_init(&b.waiters);
	b.device_total = 1024 * MIB;
	b.shares_max = 1000;
	for (unsigned i = 0; i < TENANTS; i++) {
		tenants[i].b = &b;
		tenants[i].memory.max = UINT64_MAX;
		list_init(&tenants[i].shares);
		list_init(&tenants[i].workers);
		list_append(&b.tenants, &tenants[i].link);
	}
	for (unsigned i = 0; i < WORKERS; i++)
		begin_worker(i);
}

static bool take(unsigned i, uint64_t bytes)
{
	return credit_take(&pages[i].credit, bytes) ||
	       account_charge(&workers[i], bytes, false) == 0;
}

static int export(unsigned i, uint64_t bytes, uint8_t *ret_name)
{
	struct share_part x = {.kind = SHARE_MEMORY, .n_parts = 1, .bytes = bytes};

	return share_export(&workers[i], &x, -1, ret_name);
}

static int export_parts(unsigned i, unsigned n, uint8_t *ret_name)
{
	struct share_part x = {.kind = SHARE_MEMORY, .n_parts = n};

	return share_export(&workers[i], &x, -1, ret_name);
}

static int open_name(unsigned i, const uint8_t *name)
{
	struct share_part x = {.kind = SHARE_MEMORY, .fd = -1};

	return share_open(&workers[i], name, &x);
}

Test(host_ipc, a_share_is_its_tenants_and_its_makers_to_drop)
{
	struct share_part x = {.kind = SHARE_MEMORY, .n_parts = 1, .bytes = 2 * MIB};
	uint8_t name[16], other[16];
	int pair[2];
	char c;

	reset();
	cr_assert_eq(pipe(pair), 0);
	cr_assert(take(0, 4 * MIB));
	cr_assert_eq(share_export(&workers[0], &x, pair[1], name), 0);
	cr_assert_eq(open_name(0, name), -EDEADLK);
	cr_assert_eq(open_name(1, name), -EINVAL); /* of another tenant */
	x = (struct share_part){.kind = SHARE_EVENT};
	cr_assert_eq(share_open(&workers[2], name, &x), -EINVAL);
	x.kind = SHARE_KINDS;
	cr_assert_eq(share_open(&workers[2], name, &x), -EINVAL);
	x = (struct share_part){.kind = SHARE_MEMORY, .part = 1};
	cr_assert_eq(share_open(&workers[2], name, &x), -EINVAL, "there is one part");
	for (unsigned i = 0; i < 16; i++) {
		memcpy(other, name, sizeof(other));
		other[i] ^= 1;
		cr_assert_eq(open_name(2, other), -EINVAL);
	}
	x = (struct share_part){.kind = SHARE_MEMORY, .fd = -1};
	cr_assert_eq(share_open(&workers[2], name, &x), 0);
	cr_assert(x.fd == pair[1] && x.bytes == 2 * MIB);
	/* not theirs to drop, nor to close */
	share_drop(&workers[1], name);
	share_drop(&workers[2], name);
	share_close(&workers[1], name);
	share_close(&workers[4], name);
	cr_assert_eq(open_name(4, name), 0);
	share_drop(&workers[0], name);
	cr_assert_eq(open_name(2, name), -EINVAL, "nobody new once it is freed");
	share_drop(&workers[0], name);
	cr_assert_eq(account_tenant(&tenants[0]), 4 * MIB);
	cr_assert_eq(account_tenant(&tenants[1]), 0);
	share_close(&workers[2], name);
	share_close(&workers[2], name);
	cr_assert_eq(account_tenant(&tenants[0]), 4 * MIB);
	share_close(&workers[4], name);
	cr_assert_eq(account_tenant(&tenants[0]), 2 * MIB);
	cr_assert_eq(read(pair[0], &c, 1), 0, "the descriptor is closed");
	close(pair[0]);
	for (unsigned i = 0; i < WORKERS; i++)
		end_worker(i);
	cr_assert_eq(b.granted, 0);
}

Test(host_ipc, shares_are_bounded_per_tenant_and_in_all)
{
	uint8_t name[16];
	unsigned n = 0;

	reset();
	cr_assert_eq(export(0, 2 * MIB, name), -EINVAL, "more than it was granted");
	b.shares_max = 10;
	while (export(n % WORKERS, 0, name) == 0)
		n++;
	cr_assert_eq(n, 6, "as many as each has are left");
	cr_assert_eq(export(0, 0, name), -EMFILE);
	end_worker(0);
	cr_assert_eq(export(1, 0, name), 0);
	b.shares_max = 20000;
	for (n = 0; export(1, 0, name) == 0;)
		n++;
	cr_assert_lt(n, 10000, "a tenant's share of it");
	cr_assert_eq(export(2, 0, name), 0, "another has its own");
	for (unsigned i = 1; i < WORKERS; i++)
		end_worker(i);
	cr_assert_eq(b.n_shares, 0);
}

/* However much one has, whoever comes next has room. */
Test(host_ipc, one_does_not_take_all)
{
	uint8_t name[16];
	unsigned n = 0;

	reset();
	while (export(0, 0, name) == 0)
		n++;
	cr_assert_eq(n, 500);
	for (n = 0; export(1, 0, name) == 0;)
		n++;
	cr_assert_geq(n, 200);
	cr_assert_eq(export_parts(2, 1000, name), -EMFILE);
	for (unsigned i = 0; i < WORKERS; i++)
		end_worker(i);
	cr_assert_eq(b.n_shares, 0);
}

static int export_file(unsigned kind, int fd)
{
	struct share_part x = {.kind = kind, .n_parts = 1};
	uint8_t name[16];

	return share_export(&workers[0], &x, fd, name);
}

/* Files that weftd would have to write to, keep and close. */
Test(host_ipc, a_file_that_weftd_could_hang_on_is_refused)
{
	int page = fd_memfd("event", 4096), small = fd_memfd("event", 8), pair[2];
	int loose = memfd_create("event", MFD_ALLOW_SEALING);
	int file = open("/proc/self/status", O_RDONLY);

	reset();
	cr_assert_eq(ftruncate(loose, 4096), 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	cr_assert_eq(export_file(SHARE_EVENT, -1), -EINVAL);
	cr_assert_eq(export_file(SHARE_EVENT, file), -EINVAL);
	cr_assert_eq(export_file(SHARE_EVENT, pair[0]), -EINVAL);
	cr_assert_eq(export_file(SHARE_EVENT, small), -EINVAL);
	cr_assert_eq(export_file(SHARE_EVENT, loose), -EINVAL, "it could shrink");
	cr_assert_eq(export_file(SHARE_MEMORY, file), -EINVAL);
	cr_assert_eq(export_file(SHARE_MEMORY, pair[0]), -EINVAL);
	cr_assert_eq(export_file(SHARE_EVENT, page), 0);
	cr_assert_eq(export_file(SHARE_MEMORY, loose), 0);
	cr_assert_eq(b.n_shares, 2);
	for (unsigned i = 0; i < WORKERS; i++)
		end_worker(i);
}

static int export_part(unsigned i, unsigned part, unsigned n, bool evicted, uint8_t *name)
{
	struct share_part x = {.kind = SHARE_MEMORY,
			       .part = part,
			       .n_parts = n,
			       .bytes = 2 * MIB,
			       .evicted = evicted};

	return share_export(&workers[i], &x, -1, name);
}

static int open_part(unsigned i, unsigned part, const uint8_t *name, unsigned *ret_n)
{
	struct share_part x = {.kind = SHARE_MEMORY, .part = part, .fd = -1};
	int r = share_open(&workers[i], name, &x);

	*ret_n = x.n_parts;
	return r;
}

/* In order, by their maker; nobody has them before all are there. */
Test(host_ipc, parts_come_in_order_and_open_when_all_are_there)
{
	uint8_t name[16], other[16] = {0};
	unsigned n;

	reset();
	cr_assert(take(0, 6 * MIB));
	cr_assert_eq(export_part(0, 0, 0, false, name), -EINVAL);
	cr_assert_eq(export_part(0, 1, 3, false, other), -EINVAL, "no name");
	cr_assert_eq(export_part(0, 0, UINT32_MAX, false, name), -EMFILE);
	cr_assert_eq(export_part(0, 0, 3, false, name), 0);
	cr_assert_eq(tenants[0].n_shares, 3);
	cr_assert_eq(open_part(2, 0, name, &n), -EINVAL, "not whole");
	cr_assert_eq(export_part(2, 1, 3, false, name), -EINVAL, "another's");
	cr_assert_eq(export_part(0, 2, 3, false, name), -EINVAL, "out of order");
	cr_assert_eq(export_part(0, 1, 3, false, name), 0);
	cr_assert_eq(export_part(0, 1, 3, false, name), -EINVAL, "twice");
	share_drop(&workers[0], name); /* given up */
	cr_assert_eq(account_tenant(&tenants[0]), 6 * MIB);
	cr_assert_eq(tenants[0].n_shares, 0);
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(export_part(0, i, 3, false, name), 0);
	cr_assert_eq(export_part(0, 3, 3, false, name), -EINVAL, "it is whole");
	cr_assert_eq(open_part(2, 1, name, &n), -EINVAL, "the first one first");
	cr_assert_eq(open_part(2, 0, name, &n), 0);
	cr_assert_eq(n, 3);
	cr_assert_eq(open_part(2, 2, name, &n), 0);
	cr_assert_eq(open_part(2, 3, name, &n), -EINVAL);
	share_drop(&workers[0], name);
	cr_assert_eq(account_tenant(&tenants[0]), 6 * MIB);
	share_close(&workers[2], name); /* that counted once */
	cr_assert_eq(account_tenant(&tenants[0]), 0);
	/* more than it has: what there was of it is gone */
	cr_assert(take(0, 2 * MIB));
	cr_assert_eq(export_part(0, 0, 2, false, name), 0);
	cr_assert_eq(export_part(0, 1, 2, false, name), -EINVAL);
	cr_assert_eq(b.n_shares, 0);
	for (unsigned i = 0; i < WORKERS; i++)
		end_worker(i);
	cr_assert(!b.granted && !b.n_shares);
}

static void reset_with_swap(void)
{
	reset();
	b.swap = 64 * MIB;
	cr_assert(take(0, 6 * MIB));
}

/* The maker has ended, the other user lets go: until then 2 MiB are the tenant's. */
static void ends_with_the_user(const uint8_t *name)
{
	cr_assert(b.evicted == 2 * MIB && tenants[0].evicted == 2 * MIB);
	cr_assert(!b.returning && !tenants[0].returning);
	share_close(&workers[2], name);
	cr_assert(!b.evicted && !tenants[0].evicted && !b.granted);
	for (unsigned i = 1; i < WORKERS; i++)
		end_worker(i);
}

/* In host memory: it stays there, and is the tenant's until nobody has it. */
Test(host_ipc, a_share_in_host_memory_stays_there)
{
	uint8_t name[16];
	unsigned n;

	reset_with_swap();
	cr_assert_eq(export_part(0, 0, 1, true, name), -EINVAL, "nothing is evicted");
	cr_assert_eq(evicted_left(&workers[0], 4 * MIB), 4 * MIB);
	cr_assert_eq(export_part(0, 0, 2, false, name), 0);
	cr_assert_eq(evicted_waiting(&workers[0]), 4 * MIB);
	cr_assert_eq(export_part(0, 1, 2, true, name), 0);
	cr_assert_eq(evicted_waiting(&workers[0]), 2 * MIB, "it does not come back");
	cr_assert_eq(open_part(2, 0, name, &n), 0);
	share_drop(&workers[0], name);
	cr_assert(workers[0].evicted == 2 * MIB && b.evicted == 4 * MIB);
	cr_assert_eq(account_tenant(&tenants[0]), 2 * MIB);
	end_worker(0);
	ends_with_the_user(name);
}

/* Shared while it is on its way back, which it is too late for: its maker ends before it
 * has said so. */
Test(host_ipc, evicted_and_returning)
{
	uint8_t name[16];
	unsigned n;

	reset_with_swap();
	cr_assert_eq(evicted_left(&workers[0], 6 * MIB), 6 * MIB);
	cr_assert_eq(evicted_return(&workers[0], 6 * MIB), 0);
	cr_assert_eq(export_part(0, 0, 1, true, name), 0);
	cr_assert_eq(open_part(2, 0, name, &n), 0);
	end_worker(0);
	cr_assert(!b.granted);
	ends_with_the_user(name);
}

/* Freed before its worker has said that it left: that is not what is shared. */
Test(host_ipc, evicted_and_freed_early)
{
	uint8_t name[16];

	reset_with_swap();
	cr_assert_eq(evicted_left(&workers[0], 2 * MIB), 2 * MIB);
	cr_assert_eq(export_part(0, 0, 1, true, name), 0);
	workers[0].move.out_id = 1;
	evicted_freed(&workers[0], 2 * MIB);
	share_drop(&workers[0], name);
	cr_assert_eq(evicted_left(&workers[0], 4 * MIB), 4 * MIB);
	workers[0].move.out_id = 0;
	cr_assert_eq(workers[0].evicted, 2 * MIB);
	cr_assert_eq(b.evicted, 2 * MIB);
	evicted_freed(&workers[0], 2 * MIB);
	cr_assert_eq(b.evicted, 0);
	cr_assert_eq(account_tenant(&tenants[0]), 0);
	for (unsigned i = 0; i < WORKERS; i++)
		end_worker(i);
}

/* ---- the model ---- */

static struct model {
	bool there, made; /* made: its maker has it */
	unsigned maker, tenant;
	uint64_t bytes;
	uint8_t name[16];
	unsigned users[WORKERS];
} model[SHARES];
static uint64_t own[WORKERS]; /* charged, what is shared included */

static void try_end(struct model *m)
{
	bool used = m->made;

	for (unsigned i = 0; i < WORKERS; i++)
		used |= m->users[i] != 0;
	m->there = used;
}

static void model_let_go(struct model *m)
{
	m->made = false;
	own[m->maker] -= m->bytes;
	try_end(m);
}

static void check_sums(void)
{
	for (unsigned t = 0; t < TENANTS; t++) {
		uint64_t sum = 0;

		for (unsigned i = 0; i < WORKERS; i++)
			sum += i % TENANTS == t ? own[i] : 0;
		for (unsigned k = 0; k < SHARES; k++) {
			if (model[k].there && !model[k].made && model[k].tenant == t)
				sum += model[k].bytes;
		}
		cr_assert_eq(account_tenant(&tenants[t]), sum);
		cr_assert_geq(tenants[t].granted, sum);
	}
}

static void do_export(struct model *m, unsigned w)
{
	uint64_t bytes = (uint64_t)(rand() % 4) * 2 * MIB;

	if (m->there || !take(w, bytes))
		return;
	*m = (struct model){
		.there = true, .made = true, .maker = w, .tenant = w % TENANTS};
	m->bytes = bytes;
	own[w] += bytes;
	cr_assert_eq(export(w, bytes, m->name), 0);
}

static void do_open(struct model *m, unsigned w)
{
	int want = -EINVAL;

	if (m->there && m->made && m->tenant == w % TENANTS)
		want = m->maker == w ? -EDEADLK : 0;
	cr_assert_eq(open_name(w, m->name), want);
	m->users[w] += want == 0;
}

static void do_close(struct model *m, unsigned w)
{
	share_close(&workers[w], m->name);
	if (m->there && m->users[w]) {
		m->users[w]--;
		try_end(m);
	}
}

static void do_drop(struct model *m, unsigned w)
{
	share_drop(&workers[w], m->name);
	if (m->there && m->made && m->maker == w)
		model_let_go(m);
}

static void do_end(unsigned w)
{
	end_worker(w);
	for (unsigned k = 0; k < SHARES; k++) {
		struct model *m = &model[k];

		if (!m->there)
			continue;
		m->users[w] = 0;
		if (m->made && m->maker == w)
			model_let_go(m);
		else
			try_end(m);
	}
	own[w] = 0;
	begin_worker(w);
}

Test(host_ipc, adds_up)
{
	srand(7);
	reset();
	for (unsigned i = 0; i < 200000; i++) {
		struct model *m = &model[rand() % SHARES];
		unsigned w = (unsigned)rand() % WORKERS, what = (unsigned)rand() % 100;

		if (what < 25)
			do_export(m, w);
		else if (what < 55)
			do_open(m, w);
		else if (what < 80)
			do_close(m, w);
		else if (what < 98)
			do_drop(m, w);
		else
			do_end(w);
		check_sums();
	}
	for (unsigned i = 0; i < WORKERS; i++)
		end_worker(i);
	cr_assert(!b.granted && !b.n_shares && !b.shared);
	cr_assert(!tenants[0].granted && !tenants[1].granted);
	cr_assert(list_empty(&tenants[0].shares) && list_empty(&tenants[1].shares));
}
