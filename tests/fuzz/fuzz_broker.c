/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of workers to weftd. A worker that was taken over says anything; the books
 * stay whole, and the device is not promised twice.
 *
 * Input: steps of four bytes: whose (and what else happens), message type, and two of its
 * numbers, which stand for sizes. What processes have of the device is any bytes.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"
#include "broker/broker.h"
#include "broker/compute/shared.h"
#include "broker/child/child.h"
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
#include "policies/placement.h"
#include "policies/time.h"
#include "ipc/page.h"
#include "worker_says.h"

#define MIB     (1ull << 20)
#define WORKERS 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct broker b;
static struct tenant tenants[2];
static struct worker workers[WORKERS];
static struct worker_page pages[WORKERS];
static int theirs[WORKERS];
static uint8_t name[16]; /* the last one that weftd has given */
static uint64_t now;

void child_kill(struct child *c)
{
	(void)c;
}

int shared_lost(struct worker *w)
{
	return 0;
}

struct worker *workers_ready(struct broker *broker, enum worker_kind kind)
{
	return &workers[0];
}

void workers_probed(struct worker *w, uint32_t id)
{
	(void)w;
	(void)id;
}

static void start(unsigned i)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) < 0)
		abort();
	memset(&pages[i], 0, sizeof(pages[i]));
	workers[i] = (struct worker){
		.b = &b, .count = &pages[i], .state = WORKER_READY, .slice = -1};
	workers[i].ctl.fd = pair[0];
	theirs[i] = pair[1];
	outbox_init(&workers[i].out, b.loop, &workers[i].ctl);
	list_append(&b.workers, &workers[i].link);
	account_ready(&workers[i], 0);
	if (account_attach(&workers[i], &tenants[i % 2]) < 0)
		abort();
	workers[i].state = WORKER_SESSION;
	account_begin(&workers[i]);
}

static void stop(unsigned i)
{
	reclaim_end(&workers[i]);
	share_end(&workers[i]);
	account_host_drop(&workers[i]);
	account_end(&workers[i]);
	list_remove(&workers[i].link);
	outbox_drop(&workers[i].out);
	close(workers[i].ctl.fd);
	close(theirs[i]);
}

/* Sends a message; the last question of weftd is answered with the right number, most of
 * the time. */
static void say(unsigned i, const uint8_t *step)
{
	struct worker *w = &workers[i];
	struct msg m = worker_says_msg(step[1], step[2], step[3], name);
	int fd = -1;

	m.id = step[3];
	if ((m.type == MSG_LEFT || m.type == MSG_RECLAIMED) && step[3] < 200)
		m.id = w->move.out_id;
	if (m.type == MSG_RESTORED && step[3] < 200)
		m.id = w->move.in_id;
	if (!msg_is_valid(&m) || worker_said(w, &m, &fd) < 0) {
		stop(i);
		start(i);
	}
}

/* Reports any bytes as the memory of processes, as a worker that was asked and waits for
 * a guest. */
static void say_holders(const uint8_t *bytes, size_t n)
{
	struct worker *w = &workers[0];
	int fd = memfd_create("holders", 0);

	if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
		abort();
	(void)held_tick(&b, now);
	w->state = WORKER_READY;
	if (held_said(w, bytes[0] * 16u, fd) < 0)
		w->asked_holders = false;
	w->state = WORKER_SESSION;
	close(fd);
}

static void check(void)
{
	uint64_t granted = b.shared, evicted = tenants[0].shared_evicted, host = 0,
		 moving = 0;

	evicted += tenants[1].shared_evicted;

	for (unsigned i = 0; i < WORKERS; i++) {
		granted += workers[i].charged;
		evicted += workers[i].evicted;
		moving += workers[i].freed_early + workers[i].move.surplus;
	}
	if (moving != tenants[0].freed_moving + tenants[1].freed_moving)
		abort();
	for (unsigned i = 0; i < 2; i++) {
		host += tenants[i].host_used + tenants[i].wmem;
		if (tenants[i].wmem > tenants[i].wmem_max)
			abort();
	}
	if (host != b.host || b.host > b.host_max)
		abort();
	if (granted != b.granted || evicted != b.evicted || b.granted > b.device_total)
		abort();
}

static void drain(void)
{
	struct msg m;
	int fd0, fd1;

	for (unsigned i = 0; i < WORKERS; i++) {
		while (msg_recv(theirs[i], &m, &fd0, &fd1) == 0) {
			if (m.type == MSG_IPC_EXPORTED && !m.ipc_exported.result)
				memcpy(name, m.ipc_exported.name, sizeof(name));
			if (fd0 >= 0)
				close(fd0);
			if (fd1 >= 0)
				close(fd1);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	memset(&b, 0, sizeof(b));
	memset(tenants, 0, sizeof(tenants));
	list_init(&b.tenants);
	list_init(&b.workers);
	list_init(&b.waiters);
	b.device_total = 256 * MIB;
	b.swap = 512 * MIB;
	b.host_max = 96 * MIB;
	b.reserve = 16 * MIB;
	b.kill_ns = NSEC_PER_SEC;
	b.piece = 2 * MIB;
	b.shares_max = 16;
	b.placement = placement_at(0);
	b.time = time_policy_at(0);
	now = NSEC_PER_SEC;
	memset(name, 0, sizeof(name));
	for (unsigned i = 0; i < 2; i++) {
		tenants[i] = (struct tenant){
			.b = &b, .host_max = 64 * MIB, .wmem_max = 40 * MIB};
		tenants[i].memory = (struct conf_memory){
			.high = UINT64_MAX, .max = UINT64_MAX, .swap_max = UINT64_MAX};
		tenants[i].memory.weight = 100;
		list_init(&tenants[i].shares);
		list_init(&tenants[i].workers);
		waiters_init(&tenants[i]);
		list_append(&b.tenants, &tenants[i].link);
	}
	for (unsigned i = 0; i < WORKERS; i++)
		start(i);
	for (; size >= 4; data += 4, size -= 4) {
		unsigned i = data[0] % WORKERS;

		if (data[0] & 0x80)
			credit_put(data[1] & 1 ? &pages[i].credit : &pages[i].wmem,
				   worker_says_number(data[2]));
		if (data[0] & 0x40)
			atomic_store(&pages[i].movable_bytes,
				     worker_says_number(data[3]));
		if (data[0] & 0x20)
			now += worker_says_number(data[2]);
		if (data[0] & 0x10)
			say_holders(data, size);
		say(i, data);
		(void)reclaim_tick(&b, now);
		drain();
		check();
	}
	for (unsigned i = 0; i < WORKERS; i++)
		stop(i);
	if (b.granted || b.evicted || !list_empty(&b.waiters))
		abort();
	free(b.seen);
	free(b.shares);
	return 0;
}
