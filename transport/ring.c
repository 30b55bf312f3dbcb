/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "ring.h"

#define RING_MASK (RING_SIZE - 1)

/*
 * Stores to a write-combining mapping (a PCI BAR on hosts that honour the guest's page
 * attributes) leave the processor in any order; atomics alone do not hold them.
 */
static inline void fence_weak(bool weak)
{
	if (unlikely(weak)) {
#if defined(__x86_64__)
		__builtin_ia32_mfence();
#else
		__sync_synchronize();
#endif
	}
}

/* Copies out of shared memory so that the compiler cannot go back and read it again. */
static inline void copy_once(struct wire_hdr *dst, const void *src)
{
	memcpy(dst, src, sizeof(*dst));
	__asm__ __volatile__("" : "+m"(*dst));
}

int ring_layout(uint64_t lane_size, struct ring_layout *ret_layout)
{
	struct ring_layout y;
	uint64_t rest;

	if (lane_size < RING_LANE_MIN || lane_size % 4096 || lane_size > UINT32_MAX)
		return -EINVAL;
	rest = lane_size - RING_CTL_SIZE - 2ull * RING_SIZE;
	y.bulk_size = ALIGN_DOWN(rest / 2, 4096ull);
	y.cmd = RING_CTL_SIZE;
	y.reply = y.cmd + RING_SIZE;
	y.cmd_bulk = y.reply + RING_SIZE;
	y.reply_bulk = y.cmd_bulk + y.bulk_size;
	*ret_layout = y;
	return 0;
}

void ring_tx_init(struct ring_tx *tx, struct ring_ctl *ctl, void *data, void *bulk,
		  uint64_t bulk_size, bool weak)
{
	*tx = (struct ring_tx){.ctl = ctl,
			       .data = data,
			       .bulk = bulk,
			       .bulk_size = bulk_size,
			       .weak = weak};
}

void ring_rx_init(struct ring_rx *rx, struct ring_ctl *ctl, const void *data,
		  const void *bulk, uint64_t bulk_size, bool weak)
{
	*rx = (struct ring_rx){.ctl = ctl,
			       .data = data,
			       .bulk = bulk,
			       .bulk_size = bulk_size,
			       .weak = weak};
}

/* Reads a head that the consumer publishes: it only moves forward, and never past tail.
 */
static int load_head(_Atomic uint64_t *shared, uint64_t tail, uint64_t *seen)
{
	/* Pairs with the stores in ring_rx_give_back(): what lies below is ours again. */
	uint64_t head = atomic_load_explicit(shared, memory_order_seq_cst);

	if (head - *seen > tail - *seen)
		return -EPROTO;
	*seen = head;
	return 0;
}

/*
 * Where a payload goes: at the tail, or at the start if it does not fit before the end.
 * An empty ring takes a payload anywhere, so one as large as the ring always fits in the
 * end. Returns how far the tail moves, or 0 when there is no room.
 */
static uint64_t bulk_place(const struct ring_tx *tx, uint64_t bytes, uint32_t *ret_offset)
{
	uint64_t at = tx->bulk_tail % tx->bulk_size;
	uint64_t used = tx->bulk_tail - tx->bulk_head_seen;
	uint64_t pad = tx->bulk_size - at >= bytes ? 0 : tx->bulk_size - at;

	if (used && used + pad + bytes > tx->bulk_size)
		return 0;
	*ret_offset = (uint32_t)(pad ? 0 : at);
	return pad + bytes;
}

static int bulk_reserve(struct ring_tx *tx, uint32_t payload, uint32_t *ret_offset)
{
	uint64_t bytes = ALIGN_UP((uint64_t)payload, RING_BULK_ALIGN);
	int r;

	if (bulk_place(tx, bytes, ret_offset))
		return 0;
	r = load_head(&tx->ctl->bulk_head, tx->bulk_tail, &tx->bulk_head_seen);
	if (r < 0)
		return r;
	return bulk_place(tx, bytes, ret_offset) ? 0 : -EAGAIN;
}

int ring_tx_reserve(struct ring_tx *tx, uint32_t size, uint32_t payload,
		    void **ret_record, uint32_t *ret_payload_offset)
{
	uint32_t bytes = ALIGN_UP(size, RING_ALIGN), offset = 0;
	uint32_t at = (uint32_t)(tx->tail & RING_MASK);
	uint32_t pad = RING_SIZE - at >= bytes ? 0 : RING_SIZE - at;
	int r;

	if (tx->tail + pad + bytes - tx->head_seen > RING_SIZE) {
		r = load_head(&tx->ctl->head, tx->tail, &tx->head_seen);
		if (r < 0)
			return r;
		if (tx->tail + pad + bytes - tx->head_seen > RING_SIZE)
			return -EAGAIN;
	}
	if (payload) {
		r = bulk_reserve(tx, payload, &offset);
		if (r < 0)
			return r;
	}
	if (pad) {
		struct wire_hdr skip = {.words = sizeof(skip) / 8, .flags = WIRE_F_PAD};

		memcpy(tx->data + at, &skip, sizeof(skip));
		tx->tail += pad;
		at = 0;
	}
	*ret_record = tx->data + at;
	*ret_payload_offset = offset;
	return 0;
}

/*
 * Puts a small record into the tail's line as well, before the tail moves. The mark
 * changes first: a consumer that still copies the one before sees that, and looks in the
 * ring.
 */
static void put_last(struct ring_tx *tx, uint32_t size)
{
	const uint64_t *record = (const void *)(tx->data + (tx->tail & RING_MASK));
	struct ring_ctl *ctl = tx->ctl;

	if (size > RING_LAST_MAX || tx->weak)
		return;
	atomic_store_explicit(&ctl->last_end, tx->tail + ALIGN_UP(size, RING_ALIGN),
			      memory_order_relaxed);
	/* Orders the mark before the bytes; pairs with the fence in take_last(). */
	atomic_thread_fence(memory_order_release);
	for (unsigned i = 0; i < size / 8; i++)
		atomic_store_explicit(&ctl->last[i], record[i], memory_order_relaxed);
}

void ring_tx_prepare(struct ring_tx *tx, uint32_t size, uint64_t *ret_tail)
{
	put_last(tx, size);
	*ret_tail = tx->tail + ALIGN_UP(size, RING_ALIGN);
	fence_weak(tx->weak);
}

void ring_tx_settle(struct ring_tx *tx, uint32_t size)
{
	tx->tail += ALIGN_UP(size, RING_ALIGN);
	/* The peer may have written anything there. As in ring_tx_publish(). */
	if (atomic_load_explicit(&tx->ctl->tail, memory_order_seq_cst) != tx->tail)
		atomic_store_explicit(&tx->ctl->tail, tx->tail, memory_order_seq_cst);
	fence_weak(tx->weak);
}

void ring_tx_publish(struct ring_tx *tx, uint32_t size, uint32_t payload)
{
	uint32_t offset;

	put_last(tx, size);
	/* Nothing moved since the reservation, so this finds the same place. */
	if (payload)
		tx->bulk_tail += bulk_place(
			tx, ALIGN_UP((uint64_t)payload, RING_BULK_ALIGN), &offset);
	tx->tail += ALIGN_UP(size, RING_ALIGN);
	fence_weak(tx->weak);
	/* Releases the record to the load in ring_rx_poll(). */
	atomic_store_explicit(&tx->ctl->tail, tx->tail, memory_order_seq_cst);
	fence_weak(tx->weak);
}

/* Sees how far the producer is. Returns 0 or -EPROTO. */
static int load_tail(struct ring_rx *rx)
{
	/* Acquires the records below it from the store in ring_tx_publish(). */
	uint64_t tail = atomic_load_explicit(&rx->ctl->tail, memory_order_seq_cst);

	if (tail == rx->tail_seen)
		return 0;
	fence_weak(rx->weak);
	/* More than the ring holds also covers a tail that went back behind what was taken. */
	if (tail - rx->head_out > RING_SIZE || tail - rx->next > RING_SIZE ||
	    tail % RING_ALIGN || tail - rx->next < rx->tail_seen - rx->next)
		return -EPROTO;
	rx->tail_seen = tail;
	return 0;
}

int ring_rx_poll(struct ring_rx *rx)
{
	int r;

	if (rx->tail_seen != rx->next)
		return 1;
	r = load_tail(rx);
	return r < 0 ? r : rx->tail_seen != rx->next;
}

/* Bytes from `at` to the next record, of which *ret_hdr is a copy; 0: there is none. */
static uint64_t skip_record(const struct ring_rx *rx, uint64_t at,
			    struct wire_hdr *ret_hdr)
{
	uint64_t most = RING_SIZE - (at & RING_MASK);
	uint64_t bytes;

	copy_once(ret_hdr, rx->data + (at & RING_MASK));
	bytes = ret_hdr->flags == WIRE_F_PAD
			? most
			: ALIGN_UP((uint64_t)wire_size(ret_hdr), RING_ALIGN);
	return bytes <= MIN(most, rx->tail_seen - at) ? bytes : 0;
}

enum lane_behind ring_rx_behind(struct ring_rx *rx)
{
	enum lane_behind r = LANE_NOTHING;

	if (load_tail(rx) < 0)
		return LANE_CALL;
	/* Records may have been taken that were not looked at. */
	if (rx->looked - rx->next > rx->tail_seen - rx->next)
		rx->looked = rx->next;
	while (rx->looked != rx->tail_seen) {
		struct wire_hdr h;
		uint64_t bytes = skip_record(rx, rx->looked, &h);

		if (!bytes || !(h.flags & (WIRE_F_ASYNC | WIRE_F_PAD)))
			return LANE_CALL;
		rx->looked += bytes;
		r = LANE_POSTED;
	}
	return r;
}

int ring_rx_peek(struct ring_rx *rx)
{
	struct wire_hdr h;

	if (rx->tail_seen == rx->next)
		return -1;
	copy_once(&h, rx->data + (rx->next & RING_MASK));
	return h.flags == WIRE_F_PAD ? -1 : h.op;
}

/* Takes the next record from the tail's line. False: it has to be read in the ring. */
static bool take_last(struct ring_rx *rx, struct wire_hdr *ret_hdr, void *ret_rest)
{
	const struct ring_ctl *ctl = rx->ctl;
	uint64_t bytes = rx->tail_seen - rx->next;
	uint64_t copy[RING_LAST_MAX / 8];
	struct wire_hdr h;

	/* If more lies there, the producer may be writing to that line. */
	if (bytes > RING_LAST_MAX || rx->weak ||
	    atomic_load_explicit(&ctl->last_end, memory_order_relaxed) != rx->tail_seen)
		return false;
	for (unsigned i = 0; i < ARRAY_SIZE(copy); i++)
		copy[i] = atomic_load_explicit(&ctl->last[i], memory_order_relaxed);
	/* Pairs with the fence in put_last(). */
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&ctl->last_end, memory_order_relaxed) != rx->tail_seen)
		return false;
	memcpy(&h, copy, sizeof(h));
	if (h.flags == WIRE_F_PAD || wire_size(&h) < sizeof(h) ||
	    ALIGN_UP((uint64_t)wire_size(&h), RING_ALIGN) != bytes)
		return false; /* another one lies before it */
	memcpy(ret_rest, (const char *)copy + sizeof(h), wire_size(&h) - sizeof(h));
	rx->next += bytes;
	*ret_hdr = h;
	return true;
}

int ring_rx_next(struct ring_rx *rx, struct wire_hdr *ret_hdr, void *ret_rest)
{
	for (;;) {
		uint32_t at = (uint32_t)(rx->next & RING_MASK);
		uint64_t most, bytes;
		struct wire_hdr h;
		int r;

		r = ring_rx_poll(rx);
		if (r <= 0)
			return r < 0 ? r : -EAGAIN;
		if (take_last(rx, ret_hdr, ret_rest))
			return 0;
		most = MIN(rx->tail_seen - rx->next, (uint64_t)(RING_SIZE - at));
		copy_once(&h, rx->data + at);
		if (h.flags == WIRE_F_PAD) {
			/* Never at the start, so a ring cannot consist of padding. */
			if (!at || most < RING_SIZE - at || h.op || h.seq ||
			    wire_size(&h) != sizeof(h) || h.fixed)
				return -EPROTO;
			rx->next += RING_SIZE - at;
			continue;
		}
		bytes = ALIGN_UP((uint64_t)wire_size(&h), RING_ALIGN);
		if (wire_size(&h) < sizeof(h) || wire_size(&h) > RING_RECORD_MAX ||
		    bytes > most)
			return -EPROTO;
		rx->next += bytes;
		*ret_hdr = h;
		memcpy(ret_rest, rx->data + at + sizeof(h), wire_size(&h) - sizeof(h));
		return 0;
	}
}

int ring_rx_payload(struct ring_rx *rx, const struct wire_payload *wp,
		    const void **ret_data)
{
	uint64_t at = rx->bulk_next % rx->bulk_size;
	uint64_t bytes = ALIGN_UP((uint64_t)wp->size, RING_BULK_ALIGN);
	uint64_t pad = 0;

	if (!wp->size || wp->size > WIRE_PAYLOAD_MAX)
		return -EPROTO;
	if (at + bytes > rx->bulk_size) {
		pad = rx->bulk_size - at;
		at = 0;
	}
	/* The producer has no choice where to put it, so anything else is a lie. */
	if (wp->offset != at)
		return -EPROTO;
	rx->bulk_next += pad + bytes;
	*ret_data = rx->bulk + at;
	return 0;
}

void ring_rx_release(struct ring_rx *rx)
{
	rx->head = rx->next;
	rx->bulk_head = rx->bulk_next;
}

bool ring_rx_give_back(struct ring_rx *rx, bool force)
{
	uint64_t bytes = rx->head - rx->head_out;
	uint64_t bulk = rx->bulk_head - rx->bulk_head_out;

	if (!bytes)
		return false;
	/* A quarter: a waiting producer finds room for several records at once. */
	if (!force && bytes < RING_SIZE / 4 && bulk < rx->bulk_size / 4)
		return false;
	fence_weak(rx->weak);
	/* Both release the room to load_head(): reads of it are over. */
	if (bulk)
		atomic_store_explicit(&rx->ctl->bulk_head, rx->bulk_head,
				      memory_order_release);
	atomic_store_explicit(&rx->ctl->head, rx->head, memory_order_seq_cst);
	fence_weak(rx->weak);
	rx->head_out = rx->head;
	rx->bulk_head_out = rx->bulk_head;
	return true;
}
