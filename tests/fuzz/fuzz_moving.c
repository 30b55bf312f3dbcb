/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of weftd to a worker about its memory, weftd having gone mad. Input: records
 * of
 *
 *	type (1 byte, of those below), id (1 byte: of answers, with bit 3 this one and not
 *	the right one), result (1 byte, negative), bytes (1 byte: its low bits shifted by
 *	its high ones), host room (1 byte, likewise, and its lowest bit: to be swapped)
 *
 * The worker does it or refuses it, and its memory is as it was.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "memory/move.h"
#include "memory/space.h"
#include "session/command.h"
#include "session/session.h"
#include "worker/broker_link.h"
#include "worker/moving.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RECORD     5
#define RECORDS    64
#define MIB        (1ull << 20)
#define require(x) ((x) ? (void)0 : abort())

static uint64_t number(uint8_t byte)
{
	return (uint64_t)(byte & 15) << (byte >> 4) * 4;
}

/* Seeds have the number of a row, so new ones come last. */
static const uint32_t types[] = {
	MSG_RECLAIM,  MSG_RESTORE,       MSG_NEED_GRANTED, MSG_RESIDENT_GRANTED,
	MSG_PREALLOC, MSG_MAKE_RESIDENT, /* weftd does not say it; memory is to be shared */
	MSG_CHARGED,                     /* nobody asked */
	MSG_GUEST,    MSG_NUM,           MSG_RESUME,
};

static struct msg message(const uint8_t *rec)
{
	int32_t result = -(int32_t)(rec[2] % 40);
	uint64_t bytes = number(rec[3]);
	struct msg m = {.type = types[rec[0] % ARRAY_SIZE(types)], .id = rec[1] % 8};

	if (m.type == MSG_RECLAIM)
		m.reclaim = (struct msg_reclaim){.bytes = bytes,
						 .host_room = number(rec[4] ^ rec[3]),
						 .swap = rec[4] & 1,
						 .only_copies = rec[1] >> 6 & 1,
						 .urgent = rec[1] >> 7};
	else if (m.type == MSG_RESTORE)
		m.restore.bytes = bytes;
	else if (m.type == MSG_NEED_GRANTED)
		m.need_granted.bytes = bytes;
	else if (m.type == MSG_RESIDENT_GRANTED)
		m.resident_granted =
			(struct msg_resident_granted){.result = result, .bytes = bytes};
	else if (m.type == MSG_PREALLOC)
		m.prealloc.bytes = bytes;
	else if (m.type == MSG_CHARGED)
		m.charged = (struct msg_charged){.result = result, .bytes = bytes};
	return m;
}

static void pair(int *ret_fds)
{
	require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ret_fds) == 0);
}

#define BUFFERS 3
static const uint64_t sizes[BUFFERS] = {4096, MIB + 512, 5 * MIB};

struct listener {
	struct session *s;
	struct broker_link *link;
	struct moving *moving;
	CUdeviceptr addr[BUFFERS];
	int sock[2];
	struct gate_lane lane; /* comes and goes, so that it wants in */
	pthread_t visitor, giver;
	_Atomic bool stop, given;
	uint32_t need, make_resident; /* ids of what it asked last */
};

/* Throws away what was sent, but for ids. */
static void drain(struct listener *l)
{
	struct msg m;
	int fd[2];

	while (msg_recv(l->sock[1], &m, &fd[0], &fd[1]) == 0) {
		closep(&fd[0]);
		closep(&fd[1]);
		if (m.type == MSG_NEED)
			l->need = m.id;
		if (m.type == MSG_MAKE_RESIDENT)
			l->make_resident = m.id;
	}
}

static void *visit(void *arg)
{
	struct listener *l = arg;

	while (!atomic_load(&l->stop) && gate_enter(&l->s->gate, &l->lane) == 0) {
		gate_leave(&l->lane);
		sched_yield();
	}
	return NULL;
}

/* Exports memory to nobody. */
static int export(void *arg, const struct share_part *x, uint8_t *name)
{
	memset(name, 1, sizeof(((struct space_share *)0)->name));
	return x->fd >= 0 ? 0 : -EINVAL;
}

static void drop(void *arg, const uint8_t *name)
{
}

/* Gives the largest buffer to others, wherever it is by then. */
static void *give(void *arg)
{
	struct listener *l = arg;
	struct space_share share;

	require(space_export(l->s->space, l->addr[BUFFERS - 1], &share) == CUDA_SUCCESS);
	atomic_store(&l->given, true);
	return NULL;
}

static void open_worker(struct listener *l)
{
	struct device_config cfg = {.tpcs = 1,
				    .memory_bytes = 32 * MIB,
				    .granularity = 128u << 10,
				    .threads = 1};
	const struct accounts nobody = {.ipc_export = export, .ipc_drop = drop};

	pair(l->sock);
	require(broker_link_new(l->sock[0], &l->link) == 0);
	require(sess_new(&device_soft_ops, &cfg, &nobody, &l->s) == 0);
	space_set_placement(l->s->space, placement_at(0));
	require(space_set_piece(l->s->space, 256u << 10) == 0);
	for (unsigned i = 0; i < BUFFERS; i++) {
		require(space_alloc(l->s->space, sizes[i], l->s->primary->id,
				    &l->addr[i]) == CUDA_SUCCESS);
		require(l->s->ops->copy.fill(l->s->primary->dev, NULL, l->addr[i], 0,
					     i + 1, 1, sizes[i], 1) == CUDA_SUCCESS);
	}
	require(moving_new(l->s, l->link, true, &l->moving) == 0);
	gate_lane_add(&l->s->gate, &l->lane);
	require(!pthread_create(&l->visitor, NULL, visit, l));
}

static void tell_worker(struct listener *l, const uint8_t *rec)
{
	struct msg m = message(rec);
	int r;

	if (m.type == MSG_MAKE_RESIDENT && !l->giver)
		require(!pthread_create(&l->giver, NULL, give, l));
	drain(l);
	if (m.type == MSG_NEED_GRANTED && !(rec[1] & 8))
		m.id = l->need;
	if (m.type == MSG_RESIDENT_GRANTED && !(rec[1] & 8))
		m.id = l->make_resident;
	r = moving_told(l->moving, &m);
	require(r == 0 || r == -EPROTO);
	if (r == -EPROTO)
		require(broker_link_answer(l->link, &m, -1) == -EPROTO);
}

/* The gate opens in the end, and all is there. */
static void check_worker(struct listener *l)
{
	struct session *s = l->s;
	const struct msg no = {.type = MSG_RESIDENT_GRANTED,
			       .resident_granted.result = -ENOMEM};
	uint8_t *buf = malloc(sizes[BUFFERS - 1]);

	while (l->giver && !atomic_load(&l->given)) {
		struct msg m = no;

		drain(l);
		m.id = l->make_resident;
		(void)moving_told(l->moving, &m);
		m = (struct msg){.type = MSG_NEED_GRANTED, .id = l->need};
		(void)moving_told(l->moving, &m);
		sched_yield();
	}
	if (l->giver)
		pthread_join(l->giver, NULL);
	moving_free(l->moving);
	require(buf && space_map_swapped(s->space) == 0);
	gate_open(&s->gate);
	atomic_store(&l->stop, true);
	pthread_join(l->visitor, NULL);
	require(gate_enter(&s->gate, &l->lane) == 0);
	for (unsigned i = 0; i < BUFFERS; i++) {
		require(s->ops->copy.read(s->primary->dev, NULL, buf, l->addr[i],
					  sizes[i]) == CUDA_SUCCESS);
		for (uint64_t at = 0; at < sizes[i]; at++)
			require(buf[at] == i + 1);
	}
	gate_leave(&l->lane);
	gate_lane_remove(&s->gate, &l->lane);
	free(buf);
	sess_free(s);
	close(l->sock[0]);
	close(l->sock[1]);
}

static void listen_to(const uint8_t *data, unsigned n)
{
	struct listener l = {.stop = false};

	open_worker(&l);
	for (unsigned i = 0; i < n; i++)
		tell_worker(&l, data + (size_t)i * RECORD);
	check_worker(&l);
	free(l.link);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned n = (unsigned)MIN(size / RECORD, (size_t)RECORDS);

	log_set_level(LOG_LVL_ERROR);
	if (n)
		listen_to(data, n);
	return 0;
}
