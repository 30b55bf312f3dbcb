/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that PTX declares and the device provides: vprintf, __assertfail, malloc and
 * free. Each lane is served by itself.
 */
#include <stdio.h>
#include <stdlib.h>

#include "simt/cta.h"
#include "simt/printf.h"

/* The value of argument i for a lane. */
static uint64_t arg_of(const struct simt_warp *w, const struct simt_call *call,
		       unsigned i, unsigned lane)
{
	const struct simt_arg *a = &call->args[i];
	const struct simt_frame *f = w->cur->frame;
	uint64_t v = 0;
	uint32_t bytes = MIN(a->bytes, 8u);

	if (a->row)
		memcpy(&v,
		       (const uint8_t *)simt_src(w, f->regs, a->place) +
			       (size_t)lane * a->row,
		       bytes);
	else
		memcpy(&v,
		       w->local + (size_t)lane * w->local_stride + f->sp +
			       f->code->area_off + a->place,
		       bytes);
	return v;
}

static void set_result(struct simt_warp *w, const struct simt_call *call, unsigned lane,
		       uint64_t v)
{
	const struct simt_arg *a = call->rets;
	const struct simt_frame *f = w->cur->frame;

	if (!call->num_rets || (a->place == -1 && a->row))
		return;
	if (a->row)
		memcpy(f->regs + a->place + (size_t)lane * a->row, &v, MIN(a->row, 8));
	else
		memcpy(w->local + (size_t)lane * w->local_stride + f->sp +
			       f->code->area_off + a->place,
		       &v, MIN(a->bytes, 8u));
}

/* Copies a device string; false if it runs into memory that cannot be read. */
static bool read_string(struct simt_warp *w, uint64_t addr, unsigned lane, char *buf,
			size_t cap, size_t *ret_len)
{
	size_t n = 0;

	for (; n + 1 < cap; n++) {
		const char *p = simt_generic(w, addr + n, 1, SIMT_PERM_READ, lane);

		if (!p)
			return false;
		if (!*p)
			break;
		buf[n] = *p;
	}
	buf[n] = 0;
	*ret_len = n;
	return true;
}

/* ---- vprintf ---- */

struct print {
	struct simt_warp *w;
	unsigned lane;
	uint64_t args; /* address of the next argument */
	uint64_t bad;  /* address that could not be read */
	uint64_t slot[3 * PRINTF_MAX_ARGS];
	bool is_string[3 * PRINTF_MAX_ARGS];
	unsigned num;
};

static bool take(struct print *p, unsigned bytes, bool string)
{
	const void *src;
	uint64_t v = 0;

	p->args = ALIGN_UP(p->args, (uint64_t)bytes);
	src = simt_generic(p->w, p->args, bytes, SIMT_PERM_READ, p->lane);
	if (!src) {
		p->bad = p->args;
		return false;
	}
	memcpy(&v, src, bytes);
	p->args += bytes;
	p->is_string[p->num] = string;
	p->slot[p->num++] = v;
	return true;
}

static bool take_args(struct print *p, const char *format, int *ret_count)
{
	struct printf_spec s;
	int count = 0;

	while (printf_next(&format, &s)) {
		if (s.kind == PRINTF_TEXT)
			continue;
		if ((unsigned)++count > PRINTF_MAX_ARGS)
			break;
		for (unsigned k = 0; k < s.stars; k++)
			if (!take(p, 4, false))
				return false;
		if (!take(p, s.kind <= PRINTF_UINT || s.kind == PRINTF_CHAR ? 4 : 8,
			  s.kind == PRINTF_STRING))
			return false;
	}
	*ret_count = count;
	return true;
}

/* Puts the record together in buf and hands it over; false: a bad string. */
static bool deliver(struct print *p, const char *format, size_t len, uint8_t *buf,
		    size_t cap)
{
	const struct simt_launch *l = p->w->cta->launch;
	struct printf_record head = {
		.magic = PRINTF_MAGIC,
		.format_len = (uint32_t)len,
		.num_args = p->num,
	};
	size_t slots = ALIGN_UP(sizeof(head) + len + 1, (size_t)8);
	size_t at = slots + 8ul * p->num;

	memset(buf, 0, at);
	memcpy(buf + sizeof(head), format, len);
	for (unsigned k = 0; k < p->num; k++) {
		uint64_t v = p->slot[k];

		if (p->is_string[k] && v) {
			size_t n, room = MIN(cap - at, (size_t)PRINTF_MAX_TEXT);

			if (room < 2)
				break;
			if (!read_string(p->w, v, p->lane, (char *)buf + at, room, &n)) {
				p->bad = v;
				return false;
			}
			v = at;
			at += n + 1;
		}
		memcpy(buf + slots + 8ul * k, &v, 8);
	}
	head.bytes = (uint32_t)at;
	memcpy(buf, &head, sizeof(head));
	if (l->calls && l->calls->print)
		l->calls->print(l->user, buf, at);
	return true;
}

#define PRINT_CAP (4 * PRINTF_MAX_TEXT)

static bool print_lane(struct simt_warp *w, const struct simt_op *op,
		       const struct simt_call *call, unsigned lane, char *format,
		       uint8_t *buf)
{
	struct print p = {.w = w, .lane = lane, .args = arg_of(w, call, 1, lane)};
	uint64_t addr = arg_of(w, call, 0, lane);
	size_t len;
	int count = 0;

	if (!addr) {
		set_result(w, call, lane, (uint32_t)-1);
		return true;
	}
	if (!read_string(w, addr, lane, format, PRINTF_MAX_TEXT, &len)) {
		simt_raise_mem(w, op, SIMT_FAULT_ADDRESS, lane, addr, 1, false);
		return false;
	}
	if (!take_args(&p, format, &count) || !deliver(&p, format, len, buf, PRINT_CAP)) {
		simt_raise_mem(w, op, SIMT_FAULT_ADDRESS, lane, p.bad, 1, false);
		return false;
	}
	set_result(w, call, lane, (uint32_t)count);
	return true;
}

static bool do_vprintf(struct simt_warp *w, const struct simt_op *op, uint32_t m,
		       const struct simt_call *call)
{
	char *format = malloc(PRINTF_MAX_TEXT + PRINT_CAP);
	bool ok = format;

	if (!format)
		simt_raise(w, op, SIMT_FAULT_MEMORY, (unsigned)__builtin_ctz(m));
	FOR_LANES(m, k)
	{
		if (ok)
			ok = print_lane(w, op, call, k, format,
					(uint8_t *)format + PRINTF_MAX_TEXT);
	}
	free(format);
	return ok;
}

/* ---- __assertfail(message, file, line, function, char size) ---- */

#define ASSERT_PART 1024

static bool do_assert(struct simt_warp *w, const struct simt_op *op, uint32_t m,
		      const struct simt_call *call)
{
	const struct simt_launch *l = w->cta->launch;
	const uint32_t *b = w->cta->id;

	FOR_LANES(m, k)
	{
		char part[3][ASSERT_PART], text[4 * ASSERT_PART];
		static const unsigned which[3] = {0, 1, 3};
		size_t n;

		for (unsigned i = 0; i < 3; i++)
			if (!read_string(w, arg_of(w, call, which[i], k), k, part[i],
					 ASSERT_PART, &n))
				part[i][0] = 0;
		snprintf(text, sizeof(text),
			 "%s:%d: %s: block: [%u,%u,%u], thread: [%u,%u,%u] "
			 "Assertion `%s` failed.\n",
			 part[1], (int)arg_of(w, call, 2, k), part[2], b[0], b[1], b[2],
			 w->tid[0][k], w->tid[1][k], w->tid[2][k], part[0]);
		if (l->calls && l->calls->assert_fail)
			l->calls->assert_fail(l->user, text);
	}
	simt_raise(w, op, SIMT_FAULT_ASSERT, (unsigned)__builtin_ctz(m));
	return false;
}

/* ---- malloc and free ---- */

static bool do_malloc(struct simt_warp *w, uint32_t m, const struct simt_call *call)
{
	const struct simt_launch *l = w->cta->launch;

	FOR_LANES(m, k)
	{
		uint64_t bytes = arg_of(w, call, 0, k), addr = 0;

		if (bytes && l->calls && l->calls->heap_alloc)
			addr = l->calls->heap_alloc(l->user, bytes);
		set_result(w, call, k, addr);
	}
	return true;
}

static bool do_free(struct simt_warp *w, const struct simt_op *op, uint32_t m,
		    const struct simt_call *call)
{
	const struct simt_launch *l = w->cta->launch;

	FOR_LANES(m, k)
	{
		uint64_t addr = arg_of(w, call, 0, k);

		if (!addr)
			continue;
		if (!l->calls || !l->calls->heap_free ||
		    l->calls->heap_free(l->user, addr) < 0) {
			simt_raise_mem(w, op, SIMT_FAULT_ADDRESS, k, addr, 0, true);
			return false;
		}
	}
	return true;
}

bool simt_builtin(struct simt_warp *w, const struct simt_op *op, uint32_t m,
		  const struct simt_code *code, const struct simt_call *call)
{
	static const uint8_t args[] = {
		[SIMT_B_VPRINTF] = 2,
		[SIMT_B_ASSERTFAIL] = 5,
		[SIMT_B_MALLOC] = 1,
		[SIMT_B_FREE] = 1,
	};

	if (call->num_args >= args[code->builtin]) {
		switch ((enum simt_builtin)code->builtin) {
		case SIMT_B_VPRINTF:
			return do_vprintf(w, op, m, call);
		case SIMT_B_ASSERTFAIL:
			return do_assert(w, op, m, call);
		case SIMT_B_MALLOC:
			return do_malloc(w, m, call);
		case SIMT_B_FREE:
			return do_free(w, op, m, call);
		case SIMT_B_NONE:
			break;
		}
	}
	simt_raise(w, op, SIMT_FAULT_INSTR, (unsigned)__builtin_ctz(m));
	return false;
}
