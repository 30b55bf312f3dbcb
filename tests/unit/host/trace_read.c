/* SPDX-License-Identifier: Apache-2.0 */
/* Records of a trace as weftd reads them while threads of a worker write them. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/clock.h"
#include "broker/operator/trace_read.h"

static struct trace_area area;
static struct trace_reader reader;

static void setup(void)
{
	memset(&area, 0, sizeof(area));
	trace_reader_init(&reader, &area);
}

TestSuite(trace_read, .init = setup, .timeout = 20);

static void write_one(uint64_t value)
{
	const struct trace_record r = {.kind = TRACE_SUBMIT, .value = value};

	trace_write(&area, &r);
}

/* As a thread that was preempted between taking its number and writing the record. */
static struct trace_slot *begin_one(void)
{
	uint64_t n = atomic_fetch_add(&area.taken, 1) + 1;

	return &area.ring[n % TRACE_RECORDS];
}

static void end_one(struct trace_slot *s, uint64_t number, uint64_t value)
{
	s->value = value;
	atomic_store(&s->number, number);
}

/* One look of weftd: how many there were; *last: the value of the last. */
static unsigned look(uint64_t *last)
{
	struct trace_record r;
	unsigned n = 0;

	while (trace_read(&reader, &area, &r)) {
		*last = r.value;
		n++;
	}
	trace_read_end(&reader, &area);
	return n;
}

Test(trace_read, slow_writer_loses_nothing)
{
	struct trace_slot *slow;
	uint64_t last = 0;

	write_one(1);
	slow = begin_one();
	write_one(3);
	cr_assert_eq(look(&last), 1);
	for (unsigned i = 0; i < TRACE_LOOKS / 2; i++)
		cr_assert_eq(look(&last), 0);
	end_one(slow, 2, 2);
	cr_assert_eq(look(&last), 2);
	cr_assert_eq(last, 3);
	cr_assert_eq(reader.lost, 0);
}

Test(trace_read, record_that_stays_incomplete_is_given_up)
{
	uint64_t last = 0;
	unsigned n = 0;

	(void)begin_one();
	write_one(2);
	for (unsigned i = 0; i <= TRACE_LOOKS; i++)
		n += look(&last);
	cr_assert_eq(n, 1);
	cr_assert_eq(last, 2);
	cr_assert_eq(reader.lost, 1);
}

/* Patience with one is not taken from the next. */
Test(trace_read, each_record_has_its_looks)
{
	struct trace_slot *slow;
	uint64_t last = 0;

	for (uint64_t i = 1; i <= 4; i++) {
		slow = begin_one();
		for (unsigned j = 0; j < TRACE_LOOKS - 1; j++)
			cr_assert_eq(look(&last), 0);
		end_one(slow, i, i);
		cr_assert_eq(look(&last), 1);
	}
	cr_assert_eq(reader.lost, 0);
}

Test(trace_read, overwritten_ones_are_counted)
{
	uint64_t last = 0;

	(void)begin_one();
	cr_assert_eq(look(&last), 0);
	for (uint64_t i = 0; i < TRACE_RECORDS + 9; i++)
		write_one(i);
	cr_assert_eq(look(&last), TRACE_RECORDS);
	cr_assert_eq(reader.lost, 10);
}
