/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session on a small software device, fed commands by a guest that says what it likes.
 * Input: records of
 *
 *	operation (2 bytes: op_key.h), flags (1 byte), body size / 8 (1 byte), payload
 *	size (1 byte), body
 *
 * flags: 1 without a reply, 2 a ticket that was used before, 4 a payload a thousand times
 * as large. In a body a word whose last byte is 0xf5 becomes a handle: type, generation
 *and index from its first three bytes, few of each, so that commands meet objects that
 *others have made. Whatever comes, the session ends in order and nothing of it is left.
 *
 * Host functions are left out: without a second guest thread their stream stands still.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "loopback.h"
#include "op_key.h"
#include "base/fd.h"
#include "memory/hostmem.h"
#include "session/session.h"

#define HOST_BYTES (1u << 20) /* that the session may share */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define F_POSTED 1
#define F_REPLAY 2
#define F_LARGE  4
#define RECORD   5  /* bytes before the body */
#define RECORDS  64 /* of one input */

/* In place of handles that were never made. */
static void put_handles(uint8_t *body, size_t size)
{
	for (size_t at = 0; at + 8 <= size; at += 8) {
		uint64_t h;

		if (body[at + 7] != 0xf5)
			continue;
		h = handle_make(body[at] % HANDLE_NUM_TYPES, body[at + 1] & 3,
				body[at + 2] & 7);
		memcpy(body + at, &h, 8);
	}
}

static int drain(struct lane *l)
{
	struct lane_reply r;
	int e = lane_call(l, &r);

	while (e == 0 && r.more)
		e = lane_next(l, &r);
	return e;
}

static int send_record(struct loopback *lb, const uint8_t *rec, const uint8_t *body,
		       size_t body_size)
{
	uint32_t payload_size = rec[4] * (rec[2] & F_LARGE ? 1000u : 1u);
	uint16_t op = op_named(rec);
	void *payload, *to;

	if (op == WIRE_OP_host_func || op == WIRE_OP_host_func_wait ||
	    op == WIRE_OP_graph_host)
		return 0;
	if (rec[2] & F_REPLAY)
		atomic_store(&lb->tickets.next, 1);
	to = lane_begin(lb->guest, op, (uint32_t)body_size, payload_size, &payload);
	if (!to)
		return -EPIPE;
	memcpy(to, body, body_size);
	put_handles(to, body_size);
	if (payload_size)
		memset(payload, rec[4], payload_size);
	return rec[2] & F_POSTED ? lane_post(lb->guest) : drain(lb->guest);
}

static void play(struct loopback *lb, const uint8_t *data, size_t size)
{
	for (unsigned n = 0; n < RECORDS && size >= RECORD; n++) {
		size_t body = MIN((size_t)data[3] * 8, (size - RECORD) & ~7ul);

		if (send_record(lb, data, data + RECORD, body) < 0)
			return;
		data += RECORD + body;
		size -= RECORD + body;
	}
}

/* Quotas are part of what is tried. */
static int charge(void *arg, uint64_t bytes)
{
	uint64_t *used = arg;

	if (*used + bytes > 48u << 20)
		return -EDQUOT;
	*used += bytes;
	return 0;
}

static void uncharge(void *arg, uint64_t bytes)
{
	uint64_t *used = arg;

	if (bytes > *used)
		abort();
	*used -= bytes;
}

/*
 * Names are numbers, so that inputs can guess them, and the session finds what it exported
 * itself as if it were another's. What is freed stays to be had.
 */
static struct sess_ipc shares[64];
static unsigned n_shares, n_opened;

static int ipc_export(void *arg, const struct sess_ipc *x, uint8_t *ret_name)
{
	if (n_shares == ARRAY_SIZE(shares))
		return -EMFILE;
	shares[n_shares] = *x;
	if (x->fd >= 0)
		shares[n_shares].fd = fcntl(x->fd, F_DUPFD_CLOEXEC, 0);
	memset(ret_name, 0, 16);
	ret_name[0] = (uint8_t)n_shares++;
	return 0;
}

static int ipc_open(void *arg, const uint8_t *name, struct sess_ipc *x)
{
	if (name[0] >= n_shares || shares[name[0]].kind != x->kind)
		return name[0] & 1 ? -EINVAL : -EDEADLK;
	*x = shares[name[0]];
	if (x->fd >= 0)
		x->fd = fcntl(x->fd, F_DUPFD_CLOEXEC, 0);
	n_opened++;
	return 0;
}

static void ipc_close(void *arg, const uint8_t *name)
{
	if (!n_opened--)
		abort();
}

static void ipc_drop(void *arg, const uint8_t *name)
{
	if (name[0] >= n_shares)
		abort();
	uncharge(arg, shares[name[0]].bytes);
}

static void ipc_fini(void)
{
	if (n_opened)
		abort();
	while (n_shares)
		closep(&shares[--n_shares].fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct loopback_opts o = {.carrier = size & 1 ? WIRE_CARRIER_WINDOW
						      : WIRE_CARRIER_STREAM};
	struct device_config cfg = {.tpcs = 1, .threads = 1, .memory_bytes = 64u << 20};
	struct sess_broker broker = {.charge = charge, .uncharge = uncharge,
				     .ipc_export = ipc_export,
				     .ipc_open = ipc_open,
				     .ipc_close = ipc_close,
				     .ipc_drop = ipc_drop};
	struct hostmem_file file = {.fd = fd_memfd("fuzz", HOST_BYTES),
				    .size = HOST_BYTES};
	struct loopback lb;
	struct session *s;
	uint64_t used = 0;

	log_set_level(LOG_LVL_ERROR);
	broker.arg = &used;
	if (sess_new(&device_soft_ops, &cfg, &broker, &s) < 0 ||
	    loopback_init(&lb, &o) < 0 || hostmem_new(s, &file, &s->hostmem) < 0)
		abort();
	if (sess_lane_reserve(s) != 0 || sess_lane_start(s, steal(lb.worker), 0) < 0)
		abort();
	play(&lb, data, size);
	lane_free(steal(lb.guest));
	sess_join(s); /* the worker's lane lives in the window */
	loopback_fini(&lb);
	sess_free(s);
	closep(&file.fd);
	ipc_fini();
	if (used)
		abort();
	return 0;
}
