/* SPDX-License-Identifier: Apache-2.0 */
/* The ring: room, wrapping, and a peer that writes whatever it likes. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "ring.h"

#define HDR sizeof(struct wire_hdr)

struct rig {
	struct ring_ctl *ctl;
	char *data, *bulk;
	struct ring_tx tx;
	struct ring_rx rx;
};

static struct rig *rig_new(uint64_t bulk_size)
{
	struct rig *g = calloc(1, sizeof(*g));

	g->ctl = aligned_alloc(64, sizeof(*g->ctl));
	memset(g->ctl, 0, sizeof(*g->ctl));
	g->data = aligned_alloc(64, RING_SIZE);
	g->bulk = aligned_alloc(64, bulk_size);
	memset(g->data, 0xee, RING_SIZE);
	ring_tx_init(&g->tx, g->ctl, g->data, g->bulk, bulk_size, false);
	ring_rx_init(&g->rx, g->ctl, g->data, g->bulk, bulk_size, false);
	return g;
}

static void rig_free(struct rig *g)
{
	free(g->ctl);
	free(g->data);
	free(g->bulk);
	free(g);
}

/* Publishes a record whose body and payload are filled with a byte. 0 or what failed. */
static int put(struct rig *g, uint32_t body, uint32_t payload, int fill)
{
	uint32_t size = (uint32_t)HDR + (payload ? 8 : 0) + body, offset;
	struct wire_hdr h = {
		.words = (uint16_t)(size / 8), .op = 9, .seq = (uint64_t)fill};
	char *rec;
	int r = ring_tx_reserve(&g->tx, size, payload, (void **)&rec, &offset);

	if (r < 0)
		return r;
	if (payload) {
		struct wire_payload wp = {payload, offset};

		h.flags = WIRE_F_PAYLOAD;
		memcpy(rec + HDR, &wp, sizeof(wp));
		memset(g->bulk + offset, fill, payload);
	}
	memset(rec + size - body, fill, body);
	memcpy(rec, &h, sizeof(h));
	ring_tx_publish(&g->tx, size, payload);
	return 0;
}

/* Takes a record and checks every byte of it. */
static int take(struct rig *g, uint32_t body, uint32_t payload, int fill)
{
	static unsigned char copy[RING_REST_MAX];
	const unsigned char *rest = copy, *data;
	struct wire_payload wp;
	struct wire_hdr h;
	int r = ring_rx_next(&g->rx, &h, copy);

	if (r < 0)
		return r;
	cr_assert_eq(h.seq, (uint64_t)fill);
	cr_assert_eq(wire_size(&h), HDR + (payload ? 8 : 0) + body);
	if (payload) {
		memcpy(&wp, rest, sizeof(wp));
		rest += sizeof(wp);
		r = ring_rx_payload(&g->rx, &wp, (const void **)&data);
		cr_assert_eq(r, 0);
		cr_assert_eq(wp.size, payload);
		cr_assert(data[0] == fill && data[payload - 1] == fill);
		cr_assert(!memcmp(data, data + 1, payload - 1));
	}
	for (uint32_t i = 0; i < body; i++)
		cr_assert_eq(rest[i], fill);
	return 0;
}

static void done(struct rig *g)
{
	ring_rx_release(&g->rx);
	ring_rx_give_back(&g->rx, true);
}

Test(ring, layout_is_contiguous_and_bounded)
{
	struct ring_layout y;

	cr_assert_eq(ring_layout(RING_LANE_MIN - 4096, &y), -EINVAL);
	cr_assert_eq(ring_layout(RING_LANE_MIN + 8, &y), -EINVAL);
	cr_assert_eq(ring_layout(1ull << 33, &y), -EINVAL);
	cr_assert_eq(ring_layout(RING_LANE_MIN, &y), 0);
	cr_assert_eq(y.bulk_size, WIRE_PAYLOAD_MAX);
	cr_assert_eq(ring_layout(RING_LANE_MIN + 4096, &y), 0);
	cr_assert_leq(y.reply_bulk + y.bulk_size, RING_LANE_MIN + 4096);
	cr_assert_eq(y.reply, y.cmd + RING_SIZE);
	cr_assert_eq(y.cmd_bulk, y.reply + RING_SIZE);
	cr_assert_eq(y.reply_bulk, y.cmd_bulk + y.bulk_size);
}

Test(ring, an_empty_ring_gives_nothing)
{
	struct rig *g = rig_new(WIRE_PAYLOAD_MAX);

	cr_assert_eq(take(g, 8, 0, 1), -EAGAIN);
	cr_assert_eq(ring_rx_poll(&g->rx), 0);
	cr_assert_eq(ring_rx_peek(&g->rx), -1);
	rig_free(g);
}

Test(ring, a_peek_sees_what_the_last_poll_saw)
{
	struct rig *g = rig_new(WIRE_PAYLOAD_MAX);

	cr_assert_eq(put(g, 8, 0, 1), 0);
	cr_assert_eq(ring_rx_peek(&g->rx), -1);
	cr_assert_eq(put(g, 8, 0, 2), 0);
	cr_assert_eq(ring_rx_poll(&g->rx), 1);
	cr_assert_eq(put(g, 8, 0, 3), 0);
	cr_assert_eq(ring_rx_peek(&g->rx), 9);
	cr_assert_eq(take(g, 8, 0, 1), 0);
	cr_assert_eq(ring_rx_peek(&g->rx), 9);
	cr_assert_eq(take(g, 8, 0, 2), 0);
	/* The third came later. */
	cr_assert_eq(ring_rx_peek(&g->rx), -1);
	cr_assert_eq(ring_rx_poll(&g->rx), 1);
	cr_assert_eq(ring_rx_peek(&g->rx), 9);
	cr_assert_eq(take(g, 8, 0, 3), 0);
	cr_assert_eq(ring_rx_peek(&g->rx), -1);
	rig_free(g);
}

/* Publishes a record of a header alone, flags as given. */
static void put_flags(struct rig *g, uint16_t flags)
{
	struct wire_hdr h = {.words = HDR / 8, .flags = flags};
	uint32_t offset;
	void *rec;

	cr_assert_eq(ring_tx_reserve(&g->tx, HDR, 0, &rec, &offset), 0);
	memcpy(rec, &h, sizeof(h));
	ring_tx_publish(&g->tx, HDR, 0);
}

static void take_any(struct rig *g, unsigned n)
{
	static unsigned char rest[RING_REST_MAX];
	struct wire_hdr h;

	while (n--)
		cr_assert_eq(ring_rx_next(&g->rx, &h, rest), 0);
	done(g);
}

Test(ring, what_lies_behind_is_told_once_but_for_calls)
{
	struct rig *g = rig_new(WIRE_PAYLOAD_MAX);

	/* Records come to lie across the end of the ring. */
	for (unsigned round = 0; round < RING_SIZE / 40; round++) {
		cr_assert_eq(ring_rx_behind(&g->rx), LANE_NOTHING);
		put_flags(g, WIRE_F_ASYNC);
		put_flags(g, WIRE_F_ASYNC | WIRE_F_APART);
		cr_assert_eq(ring_rx_behind(&g->rx), LANE_POSTED);
		cr_assert_eq(ring_rx_behind(&g->rx), LANE_NOTHING);
		take_any(g, 1);
		cr_assert_eq(ring_rx_behind(&g->rx), LANE_NOTHING);
		put_flags(g, WIRE_F_ASYNC);
		put_flags(g, 0);
		cr_assert_eq(ring_rx_behind(&g->rx), LANE_CALL);
		cr_assert_eq(ring_rx_behind(&g->rx), LANE_CALL);
		put_flags(g, WIRE_F_ASYNC);
		take_any(g, 2);
		cr_assert_eq(ring_rx_behind(&g->rx), LANE_CALL);
		take_any(g, 1);
		cr_assert_eq(ring_rx_behind(&g->rx), LANE_POSTED);
		take_any(g, 1);
	}
	rig_free(g);
}

Test(ring, what_lies_behind_and_is_no_record_counts_as_a_call)
{
	static const struct {
		uint16_t words, flags;
		uint64_t tail;
	} wrong[] = {
		{0, WIRE_F_ASYNC, 16}, {0xffff, WIRE_F_ASYNC, 16},
		{4, WIRE_F_ASYNC, 16}, {2, WIRE_F_PAD, 16},
		{2, WIRE_F_ASYNC, 8},  {2, WIRE_F_ASYNC, RING_SIZE + 16},
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct rig *g = rig_new(WIRE_PAYLOAD_MAX);
		struct wire_hdr h = {.words = wrong[i].words, .flags = wrong[i].flags};

		memcpy(g->data, &h, sizeof(h));
		g->ctl->tail = wrong[i].tail;
		cr_assert_eq(ring_rx_behind(&g->rx), LANE_CALL, "%zu", i);
		rig_free(g);
	}
}

Test(ring, a_tail_that_goes_back_counts_as_a_call)
{
	struct rig *g = rig_new(WIRE_PAYLOAD_MAX);

	put_flags(g, WIRE_F_ASYNC);
	put_flags(g, WIRE_F_ASYNC);
	cr_assert_eq(ring_rx_behind(&g->rx), LANE_POSTED);
	g->ctl->tail = 16;
	cr_assert_eq(ring_rx_behind(&g->rx), LANE_CALL);
	rig_free(g);
}

static bool is_beside_the_tail(struct rig *g)
{
	bool lies = g->ctl->last_end == g->ctl->tail;

	/* Data in the ring is not looked at then. */
	if (lies)
		memset(g->data, 0, RING_SIZE);
	return lies;
}

Test(ring, a_small_record_is_taken_from_beside_the_tail)
{
	struct rig *g = rig_new(WIRE_PAYLOAD_MAX);

	for (uint32_t body = 0; body <= 64; body += 8) {
		cr_assert_eq(put(g, body, 0, 1), 0);
		cr_assert_eq(is_beside_the_tail(g), HDR + body <= RING_LAST_MAX);
		cr_assert_eq(take(g, body, 0, 1), 0);
	}
	cr_assert_eq(put(g, 16, 100, 2), 0);
	cr_assert(is_beside_the_tail(g));
	cr_assert_eq(take(g, 16, 100, 2), 0);
	rig_free(g);
}

Test(ring, of_several_records_none_is_taken_from_beside_the_tail)
{
	struct rig *g = rig_new(WIRE_PAYLOAD_MAX);

	cr_assert_eq(put(g, 0, 0, 1), 0);
	cr_assert_eq(put(g, 0, 0, 2), 0);
	cr_assert_eq(put(g, 16, 0, 3), 0);
	cr_assert_eq(take(g, 0, 0, 1), 0);
	cr_assert_eq(take(g, 0, 0, 2), 0);
	cr_assert(is_beside_the_tail(g));
	cr_assert_eq(take(g, 16, 0, 3), 0);
	/* One that is small, then one that is not, before anybody has looked. */
	cr_assert_eq(put(g, 0, 0, 4), 0);
	cr_assert_eq(put(g, 400, 0, 5), 0);
	cr_assert_eq(take(g, 0, 0, 4), 0);
	cr_assert_eq(take(g, 400, 0, 5), 0);
	rig_free(g);
}

Test(ring, a_weak_mapping_has_nothing_beside_the_tail)
{
	struct rig *g = rig_new(WIRE_PAYLOAD_MAX);

	g->tx.weak = true;
	cr_assert_eq(put(g, 0, 0, 1), 0);
	cr_assert_eq(g->ctl->last_end, 0);
	cr_assert_eq(take(g, 0, 0, 1), 0);
	g->tx.weak = false;
	g->rx.weak = true;
	cr_assert_eq(put(g, 0, 0, 2), 0);
	memset(g->ctl->last, 0xee, sizeof(g->ctl->last));
	cr_assert_eq(take(g, 0, 0, 2), 0);
	rig_free(g);
}

/* Every place at which a record can meet the end of the ring. */
Test(ring, wraps_at_every_remainder)
{
	struct rig *g = rig_new(WIRE_PAYLOAD_MAX);
	uint64_t rounds = 0;

	for (unsigned i = 0; i < 4000; i++) {
		uint32_t body = (i * 376) % 2048 / 8 * 8;

		cr_assert_eq(put(g, body, 0, i % 251), 0);
		cr_assert_eq(take(g, body, 0, i % 251), 0);
		done(g);
		rounds = g->tx.tail / RING_SIZE;
	}
	cr_assert_geq(rounds, 10);
	rig_free(g);
}

Test(ring, largest_record_always_fits_an_empty_ring)
{
	struct rig *g = rig_new(WIRE_PAYLOAD_MAX);

	for (unsigned i = 0; i < 50; i++) {
		cr_assert_eq(put(g, WIRE_BODY_MAX, 1, i), 0);
		cr_assert_eq(take(g, WIRE_BODY_MAX, 1, i), 0);
		done(g);
		cr_assert_eq(put(g, 8 * i, 0, i), 0);
		cr_assert_eq(take(g, 8 * i, 0, i), 0);
		done(g);
	}
	rig_free(g);
}

Test(ring, full_then_room)
{
	struct rig *g = rig_new(WIRE_PAYLOAD_MAX);
	unsigned n = 0, m = 0;

	while (put(g, 48, 0, n % 100) == 0)
		n++;
	cr_assert_eq(n, RING_SIZE / 64);
	cr_assert_eq(put(g, 48, 0, 0), -EAGAIN);
	/* Taking without telling makes no room; telling does. */
	cr_assert_eq(take(g, 48, 0, 0), 0);
	cr_assert_eq(put(g, 48, 0, n % 100), -EAGAIN);
	done(g);
	cr_assert_eq(put(g, 48, 0, n % 100), 0);
	for (m = 1; m <= n; m++)
		cr_assert_eq(take(g, 48, 0, m % 100), 0);
	cr_assert_eq(take(g, 48, 0, 0), -EAGAIN);
	rig_free(g);
}

Test(ring, gives_back_in_quarters_unless_forced)
{
	struct rig *g = rig_new(WIRE_PAYLOAD_MAX);

	for (unsigned i = 0; i < 1500; i++)
		cr_assert_eq(put(g, 48, 0, 1), 0);
	for (unsigned i = 1; i <= 1500; i++) {
		cr_assert_eq(take(g, 48, 0, 1), 0);
		ring_rx_release(&g->rx);
		cr_assert_eq(ring_rx_give_back(&g->rx, false), i == RING_SIZE / 4 / 64);
	}
	cr_assert(ring_rx_give_back(&g->rx, true));
	cr_assert(!ring_rx_give_back(&g->rx, true), "nothing new");
	rig_free(g);
}

Test(ring, bulk_wraps_and_fills)
{
	struct rig *g = rig_new(3u << 20); /* no power of two */
	uint32_t size;

	for (unsigned i = 0; i < 200; i++) {
		size = 1 + (i * 77777) % WIRE_PAYLOAD_MAX;
		cr_assert_eq(put(g, 8, size, i), 0);
		cr_assert_eq(take(g, 8, size, i), 0);
		done(g);
	}
	for (unsigned i = 0; put(g, 8, 400000, i % 100) == 0; i++)
		cr_assert_lt(i, 8);
	cr_assert_eq(put(g, 8, 400000, 1), -EAGAIN);
	rig_free(g);
}

Test(ring, largest_payload_fits_the_smallest_bulk_ring_when_empty)
{
	struct rig *g = rig_new(WIRE_PAYLOAD_MAX);

	for (unsigned i = 0; i < 6; i++) {
		cr_assert_eq(put(g, 0, 64 * i + 1, i), 0);
		cr_assert_eq(put(g, 0, WIRE_PAYLOAD_MAX, i), -EAGAIN);
		cr_assert_eq(take(g, 0, 64 * i + 1, i), 0);
		done(g);
		cr_assert_eq(put(g, 0, WIRE_PAYLOAD_MAX, i), 0);
		cr_assert_eq(put(g, 0, 1, i), -EAGAIN);
		cr_assert_eq(take(g, 0, WIRE_PAYLOAD_MAX, i), 0);
		done(g);
	}
	rig_free(g);
}

Test(ring, reserving_twice_reserves_once)
{
	struct rig *g = rig_new(WIRE_PAYLOAD_MAX);
	uint32_t o1, o2;
	void *a, *b;

	cr_assert_eq(put(g, 8, 0, 1), 0);
	cr_assert_eq(ring_tx_reserve(&g->tx, 64, 100, &a, &o1), 0);
	cr_assert_eq(ring_tx_reserve(&g->tx, 128, 100, &b, &o2), 0);
	cr_assert_eq(a, b);
	cr_assert_eq(o1, o2);
	rig_free(g);
}

/* ---- hostile producers ---- */

static int next(struct rig *g)
{
	static char rest[RING_REST_MAX];
	struct wire_hdr h;

	return ring_rx_next(&g->rx, &h, rest);
}

Test(ring, hostile_tail)
{
	static const int64_t tails[] = {
		RING_SIZE + 16, 1ll << 40, INT64_MIN, -16, -1, 8, 1, 17,
	};

	for (unsigned i = 0; i < ARRAY_SIZE(tails); i++) {
		struct rig *g = rig_new(WIRE_PAYLOAD_MAX);

		g->ctl->tail = (uint64_t)tails[i];
		cr_assert_eq(next(g), -EPROTO, "tail %lld", (long long)tails[i]);
		rig_free(g);
	}
}

Test(ring, hostile_tail_goes_back)
{
	struct rig *g = rig_new(WIRE_PAYLOAD_MAX);

	cr_assert_eq(put(g, 48, 0, 1), 0);
	cr_assert_eq(take(g, 48, 0, 1), 0);
	g->ctl->tail = 16;
	cr_assert_eq(next(g), -EPROTO);
	rig_free(g);
}

Test(ring, hostile_header)
{
	static const struct wire_hdr bad[] = {
		{.words = 0},
		{.words = 1},
		{.words = UINT16_MAX},
		{.words = RING_RECORD_MAX / 8 + 1},
		{.words = 128},                    /* more than was published */
		{.words = 2, .flags = WIRE_F_PAD}, /* at the start */
	};

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		struct rig *g = rig_new(WIRE_PAYLOAD_MAX);

		memcpy(g->data, &bad[i], sizeof(bad[i]));
		g->ctl->tail = 512;
		cr_assert_eq(next(g), -EPROTO, "header %u", i);
		rig_free(g);
	}
}

/* If the tail's line holds no record, the ring says what is there. */
Test(ring, hostile_last)
{
	static const struct wire_hdr bad[] = {
		{.words = 0},
		{.words = 1},
		{.words = UINT16_MAX},
		{.words = 6},
		{.words = 2, .flags = WIRE_F_PAD},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		struct rig *g = rig_new(WIRE_PAYLOAD_MAX);

		cr_assert_eq(put(g, 0, 0, 1), 0);
		memcpy(g->ctl->last, &bad[i], sizeof(bad[i]));
		cr_assert_eq(take(g, 0, 0, 1), 0, "header %u", i);
		g->ctl->last_end = g->ctl->tail = 512;
		cr_assert_eq(next(g), -EPROTO, "header %u", i);
		rig_free(g);
	}
}

Test(ring, hostile_padding)
{
	static const struct wire_hdr bad[] = {
		{.words = 2, .flags = WIRE_F_PAD, .op = 1},
		{.words = 2, .flags = WIRE_F_PAD, .seq = 1},
		{.words = 2, .flags = WIRE_F_PAD, .fixed = 1},
		{.words = 4, .flags = WIRE_F_PAD},
		{.words = 16}, /* a record across the end */
	};

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		struct rig *g = rig_new(WIRE_PAYLOAD_MAX);
		uint32_t at = RING_SIZE - 64;

		g->rx.next = g->rx.head = g->rx.head_out = g->rx.tail_seen = at;
		memcpy(g->data + at, &bad[i], sizeof(bad[i]));
		g->ctl->tail = at + 512;
		cr_assert_eq(next(g), -EPROTO, "padding %u", i);
		rig_free(g);
	}
}

Test(ring, padding_must_reach_the_end)
{
	struct rig *g = rig_new(WIRE_PAYLOAD_MAX);
	struct wire_hdr pad = {.words = 2, .flags = WIRE_F_PAD};
	uint32_t at = RING_SIZE - 64;

	g->rx.next = g->rx.head = g->rx.head_out = g->rx.tail_seen = at;
	memcpy(g->data + at, &pad, sizeof(pad));
	g->ctl->tail = at + 32;
	cr_assert_eq(next(g), -EPROTO);
	rig_free(g);
}

Test(ring, hostile_payload)
{
	static const struct wire_payload bad[] = {
		{0, 0},           {WIRE_PAYLOAD_MAX + 1, 0},
		{UINT32_MAX, 0},  {64, 64}, /* not where the last one ended */
		{64, UINT32_MAX}, {UINT32_MAX, UINT32_MAX},
	};
	const void *data;

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		struct rig *g = rig_new(WIRE_PAYLOAD_MAX);

		cr_assert_eq(ring_rx_payload(&g->rx, &bad[i], &data), -EPROTO, "%u", i);
		rig_free(g);
	}
}

/* ---- hostile consumers ---- */

Test(ring, hostile_head)
{
	static const int64_t heads[] = {RING_SIZE + 16, -16, INT64_MIN, 1ll << 50};

	for (unsigned i = 0; i < ARRAY_SIZE(heads); i++) {
		struct rig *g = rig_new(WIRE_PAYLOAD_MAX);

		while (put(g, 48, 0, 1) == 0)
			;
		g->ctl->head = (uint64_t)heads[i];
		cr_assert_eq(put(g, 48, 0, 1), -EPROTO, "head %lld", (long long)heads[i]);
		rig_free(g);
	}
}

Test(ring, hostile_head_goes_back)
{
	struct rig *g = rig_new(WIRE_PAYLOAD_MAX);
	int r;

	while (put(g, 48, 0, 1) == 0)
		;
	g->ctl->head = 4096;
	while ((r = put(g, 48, 0, 1)) == 0)
		;
	cr_assert_eq(r, -EAGAIN);
	g->ctl->head = 4080;
	cr_assert_eq(put(g, 48, 0, 1), -EPROTO);
	rig_free(g);
}

Test(ring, hostile_bulk_head)
{
	struct rig *g = rig_new(WIRE_PAYLOAD_MAX);

	cr_assert_eq(put(g, 0, WIRE_PAYLOAD_MAX, 1), 0);
	g->ctl->bulk_head = WIRE_PAYLOAD_MAX + 64;
	cr_assert_eq(put(g, 0, 64, 1), -EPROTO);
	rig_free(g);
}
