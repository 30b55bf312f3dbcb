/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane whose shared memory holds whatever a hostile peer put there. Input:
 *
 *	byte 0		bit 0: this end is the guest's; bit 1: it writes records as well;
 *			bit 2: what lies first lies beside the tail, too; bit 3: it asks what
 *			lies behind
 *	byte 1		where the consumer stands, in 64ths of the ring
 *	8 bytes each	tail, head and bulk_head as the peer published them, little endian
 *	the rest	what lies in the ring from there on
 *
 * The memory is exactly as large as the lane, so ASan sees a step beyond it.
 */
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "carrier.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEAD (2 + 3 * 8)
#define LAST 4
#define BEHIND 8

static void set_up(struct lane *l, struct ring_lane *ring, const uint8_t *data,
		   size_t size)
{
	struct ring_ctl *in = l->guest ? &ring->reply : &ring->cmd;
	struct ring_ctl *out = l->guest ? &ring->cmd : &ring->reply;
	struct ring_rx *rx = &l->w.rx;
	uint64_t at = data[1] % 64 * (RING_SIZE / 64), v[3];
	char *to = (char *)rx->data;

	memcpy(v, data + 2, sizeof(v));
	rx->next = rx->head = rx->head_out = rx->tail_seen = at;
	in->tail = v[0];
	out->head = v[1];
	out->bulk_head = v[2];
	if (data[0] & LAST) {
		in->last_end = v[0];
		memcpy(in->last, data + HEAD, MIN(size - HEAD, sizeof(in->last)));
	}
	memset(to, 0, RING_SIZE);
	for (size_t i = 0; i < size - HEAD && i < RING_SIZE; i++)
		to[(at + i) % RING_SIZE] = (char)data[HEAD + i];
}

static volatile char sink;

static void check(const struct lane_msg *m, const char *base)
{
	const char *p = m->payload;

	if (m->body_size > WIRE_BODY_MAX || m->payload_size > WIRE_PAYLOAD_MAX)
		__builtin_trap();
	if (m->payload_size && (p < base || p + m->payload_size > base + RING_LANE_MIN))
		__builtin_trap();
	for (uint32_t i = 0; i < m->body_size; i++)
		sink += ((const char *)m->body)[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ring_lane *ring;
	struct lane_tickets tickets = {1};
	struct lane_init in = {.tickets = &tickets, .ring_size = RING_LANE_MIN};
	struct lane_msg m;
	struct lane *l;
	int s[2];

	if (size < HEAD)
		return 0;
	if (!ring)
		ring = aligned_alloc(4096, RING_LANE_MIN);
	if (!ring || socketpair(AF_UNIX, SOCK_STREAM, 0, s) < 0)
		return 0;
	memset(ring, 0, sizeof(*ring));
	in.ring = ring;
	in.sock = s[0];
	in.guest = data[0] & 1;
	if (lane_new(&in, &l) < 0)
		__builtin_trap();
	close(s[1]); /* so that nothing ever waits */
	set_up(l, ring, data, size);
	for (unsigned n = 0; n < 4 * RING_SIZE / RING_ALIGN; n++) {
		int op = lane_peek(l);

		if (data[0] & BEHIND && lane_behind(l) == LANE_POSTED &&
		    lane_peek(l) == -1 && l->w.rx.tail_seen == l->w.rx.next)
			__builtin_trap(); /* where nothing is, nothing came */
		if (l->ops->receive(l, &m) < 0)
			break;
		if (op != -1 && op != m.hdr.op && !(data[0] & LAST))
			__builtin_trap(); /* nobody changes it here */
		check(&m, (const char *)ring);
		if (!(data[0] & 2))
			continue;
		l->out = (struct lane_out){.hdr = {.words = 2 + 1 + 8},
					   .payload_size = 100 + n};
		if (l->ops->reserve(l, &l->out, &(void *){NULL}) == 0) {
			memset(l->out.payload, 1, l->out.payload_size);
			l->ops->publish(l, &l->out);
		}
	}
	if (!lane_dead(l))
		__builtin_trap();
	lane_free(l);
	return 0;
}
