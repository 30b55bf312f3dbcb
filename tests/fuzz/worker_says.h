/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a worker to weftd out of a few bytes: of any type, in its form. */
#ifndef WEFT_FUZZ_WORKER_SAYS_H
#define WEFT_FUZZ_WORKER_SAYS_H

#include <stdint.h>
#include <string.h>

#include "base/macros.h"
#include "ipc/msg.h"

/* Seeds have the number of a row, so new ones come last. */
static const uint32_t worker_says_types[] = {
	MSG_READY,
	MSG_OPENED,
	MSG_CHARGE,
	MSG_HOST_CHARGE,
	MSG_HOST_UNCHARGE,
	MSG_WMEM_CHARGE,
	MSG_EVICTED_FREED,
	MSG_MEMORY,
	MSG_TENANT,
	MSG_LEFT,
	MSG_RECLAIMED,
	MSG_RESTORED,
	MSG_QUIESCED,
	MSG_NEED,
	MSG_MAKE_RESIDENT,
	MSG_IPC_EXPORT,
	MSG_IPC_OPEN,
	MSG_IPC_CLOSE,
	MSG_IPC_DROP,
	MSG_ALIVE,
	MSG_ENDING,
	MSG_LOST,
	MSG_HOLDERS_LIST,
	/* No worker says these. */
	MSG_CHARGED,
	MSG_PASS,
	MSG_NUM,
	MSG_HAS_HOST,
	MSG_HAS_SHARE,
	MSG_HAS_OPEN,
	MSG_RESUMED,
};

/* Bytes of memory. */
static inline uint64_t worker_says_number(uint8_t byte)
{
	return byte == 255 ? UINT64_MAX : (uint64_t)byte << 21;
}

static inline void worker_says_share(struct msg *m, uint8_t a, uint8_t b,
				     const uint8_t *name)
{
	if (m->type == MSG_IPC_EXPORT || m->type == MSG_HAS_SHARE) {
		m->ipc_export = (struct msg_ipc_export){.kind = b >> 6,
							.part = b & 3,
							.n_parts = (b >> 2 & 3) + 1,
							.evicted = b >> 4 & 1,
							.bytes = worker_says_number(a)};
		memcpy(m->ipc_export.name, name, sizeof(m->ipc_export.name));
	} else if (m->type == MSG_IPC_OPEN) {
		m->ipc_open = (struct msg_ipc_open){.kind = b >> 6, .part = b & 3};
		memcpy(m->ipc_open.name, name, sizeof(m->ipc_open.name));
	} else if (m->type == MSG_HAS_OPEN) {
		m->has_open = (struct msg_has_open){.kind = b >> 6, .n = a};
		memcpy(m->has_open.name, name, sizeof(m->has_open.name));
	} else if (m->type == MSG_IPC_CLOSE) {
		memcpy(m->ipc_close.name, name, sizeof(m->ipc_close.name));
	} else if (m->type == MSG_IPC_DROP) {
		memcpy(m->ipc_drop.name, name, sizeof(m->ipc_drop.name));
	}
}

static inline void worker_says_bytes(struct msg *m, uint64_t bytes, uint8_t b)
{
	const struct msg_moved moved = {
		.result = -(b & 31), .will_wait = (b & 31) == 16, .bytes = bytes};

	if (m->type == MSG_CHARGE)
		m->charge = (struct msg_charge){
			.bytes = bytes, .allow_spill = b != 0, .spare = b > 127};
	else if (m->type == MSG_HOST_CHARGE)
		m->host_charge.bytes = bytes;
	else if (m->type == MSG_HOST_UNCHARGE)
		m->host_uncharge = (struct msg_host_uncharge){
			.bytes = bytes, .window_offset = worker_says_number(b)};
	else if (m->type == MSG_HAS_HOST)
		m->has_host = (struct msg_has_host){
			.bytes = bytes, .window_offset = worker_says_number(b)};
	else if (m->type == MSG_RESUMED)
		m->resumed = (struct msg_resumed){.session = b & 3,
						  .device = bytes,
						  .evicted = worker_says_number(b >> 4),
						  .returning = b & 4 ? bytes : 0,
						  .out_room = bytes,
						  .out_id = b >> 3 & 1,
						  .in_id = b >> 2 & 1,
						  .at_gate = b >> 1 & 1,
						  .can_move = b & 1};
	else if (m->type == MSG_WMEM_CHARGE)
		m->wmem_charge.bytes = bytes;
	else if (m->type == MSG_EVICTED_FREED)
		m->evicted_freed.bytes = bytes;
	else if (m->type == MSG_LEFT)
		m->left.bytes = bytes;
	else if (m->type == MSG_RECLAIMED || m->type == MSG_RESTORED)
		m->moved = moved;
	else if (m->type == MSG_NEED)
		m->need.bytes = bytes;
	else if (m->type == MSG_MAKE_RESIDENT)
		m->make_resident.bytes = bytes;
}

/* Makes a message of two numbers; name is of a share, 16 bytes. */
static inline struct msg worker_says_msg(uint8_t type, uint8_t a, uint8_t b,
					 const uint8_t *name)
{
	struct msg m;

	memset(&m, 0, sizeof(m));
	m.type = worker_says_types[type % ARRAY_SIZE(worker_says_types)];
	worker_says_bytes(&m, worker_says_number(a), b);
	worker_says_share(&m, a, b, name);
	if (m.type == MSG_READY)
		m.ready = (struct msg_ready){.memory_bytes = worker_says_number(a),
					     .overhead = worker_says_number(b),
					     .own_memory = !(a & 1)};
	else if (m.type == MSG_OPENED)
		memset(m.opened.carrier, a, sizeof(m.opened.carrier) - 1);
	else if (m.type == MSG_QUIESCED)
		m.quiesced.result = -(b & 31);
	else if (m.type == MSG_HOLDERS_LIST)
		m.holders_list.n = a;
	return m;
}

#endif
