/* SPDX-License-Identifier: Apache-2.0 */
/* Where diverged lanes meet: shapes of control flow, drawn with numbered marks. */
#include "text.h"

#define MARK(n) "mov.u32 %r1, " #n ";\n"

static struct ptx_module *m;

static const struct ptx_func *body(const char *kind, const char *statements)
{
	static char text[32768];

	snprintf(text, sizeof(text), "%s.extern .func die .noreturn;\n%s\n{\n%s%s}\n",
		 PTX_HEAD, kind, PTX_REGS, statements);
	m = ptx_test_module(text);
	return ptx_find_func(m, "k");
}

#define KERNEL ".visible .entry k()"
#define DEVICE ".visible .func k()"

/* The mark at which the nth conditional branch's lanes meet; -1: where they leave. */
static int64_t meets(const struct ptx_func *f, unsigned nth)
{
	for (uint32_t i = 0; i < f->ninsns; i++) {
		const struct ptx_insn *in = &f->insns[i];

		if (!(in->op == PTX_BRA && in->guard >= 0) && in->op != PTX_BRX_IDX) {
			cr_assert_eq(in->reconv, -1);
			continue;
		}
		if (nth--)
			continue;
		if (in->reconv < 0)
			return -1;
		cr_assert_eq(f->insns[in->reconv].op, PTX_MOV);
		return (int64_t)f->insns[in->reconv].o[1].imm;
	}
	cr_assert_fail("no such branch");
	return -2;
}

Test(ptx_flow, branches_of_a_diamond_meet_at_its_end)
{
	const struct ptx_func *f = body(
		KERNEL,
		"@%p1 bra A;\n" MARK(1) "bra B;\nA:\n" MARK(2) "B:\n" MARK(3) "ret;\n");

	cr_assert_eq(meets(f, 0), 3);
	ptx_module_free(m);
}

Test(ptx_flow, if_without_else)
{
	const struct ptx_func *f =
		body(KERNEL, "@!%p1 bra A;\n" MARK(1) "A:\n" MARK(2) "ret;\n");

	cr_assert_eq(meets(f, 0), 2);
	ptx_module_free(m);
}

Test(ptx_flow, nested_and_loop)
{
	const struct ptx_func *f = body(
		KERNEL,
		MARK(0) "TOP:\n" MARK(1) "@%p1 bra IN;\n@%p2 bra X;\n" MARK(
			2) "X:\n" MARK(3) "IN:\n" MARK(4) "@%p3 bra TOP;\n" MARK(5) "ret;"
										    "\n");

	cr_assert_eq(meets(f, 0), 4);
	cr_assert_eq(meets(f, 1), 3);
	cr_assert_eq(meets(f, 2), 5);
	ptx_module_free(m);
}

Test(ptx_flow, break_and_continue)
{
	const struct ptx_func *f = body(
		KERNEL,
		"TOP:\n" MARK(1) "@%p1 bra OUT;\n" MARK(2) "@%p2 bra TOP;\n" MARK(
			3) "@%p3 bra OUT;\n" MARK(4) "bra TOP;\nOUT:\n" MARK(5) "ret;\n");

	cr_assert_eq(meets(f, 0), 5);
	cr_assert_eq(meets(f, 2), 5);
	ptx_module_free(m);
}

Test(ptx_flow, two_returns_meet_nowhere)
{
	const struct ptx_func *f =
		body(KERNEL, "@%p1 bra A;\n" MARK(1) "ret;\nA:\n" MARK(2) "exit;\n");

	cr_assert_eq(meets(f, 0), -1);
	ptx_module_free(m);
}

Test(ptx_flow, guarded_exit_is_no_way_out)
{
	const struct ptx_func *f =
		body(KERNEL, "@%p1 bra A;\n@%p2 exit;\n" MARK(1) "A:\n" MARK(2) "ret;\n");

	cr_assert_eq(meets(f, 0), 2);
	ptx_module_free(m);
}

Test(ptx_flow, traps_do_not_keep_the_others)
{
	const struct ptx_func *f = body(
		KERNEL, "@%p1 bra A;\n@%p2 bra T;\n" MARK(1) "A:\n" MARK(
				2) "bra E;\nT:\n" MARK(3) "trap;\nE:\n" MARK(4) "ret;\n");

	cr_assert_eq(meets(f, 0), 2);
	cr_assert_eq(meets(f, 1), 1);
	ptx_module_free(m);
}

Test(ptx_flow, calls_that_do_not_return)
{
	const struct ptx_func *f = body(
		KERNEL, "@%p1 bra A;\n" MARK(1) "call die;\n" MARK(2) "bra A;\nA:\n" MARK(
				3) "@%p2 bra B;\n" MARK(4) "B:\n" MARK(5) "ret;\n");

	cr_assert_eq(meets(f, 0), 3);
	cr_assert_eq(meets(f, 1), 5);
	ptx_module_free(m);
}

Test(ptx_flow, exit_of_a_device_function)
{
	const struct ptx_func *f =
		body(DEVICE, "@%p1 bra A;\nexit;\nA:\n" MARK(1) "@%p2 bra B;\n" MARK(
				     2) "B:\n" MARK(3) "ret;\n");

	cr_assert_eq(meets(f, 0), 1);
	cr_assert_eq(meets(f, 1), 3);
	ptx_module_free(m);
}

Test(ptx_flow, endless_loop_with_a_diamond)
{
	const struct ptx_func *f =
		body(KERNEL, "TOP:\n@%p1 bra A;\n" MARK(1) "bra B;\nA:\n" MARK(
				     2) "B:\n" MARK(3) "bra TOP;\n");

	cr_assert_eq(meets(f, 0), 3);
	ptx_module_free(m);
}

Test(ptx_flow, a_loop_with_two_entries_meets_behind_it)
{
	/* Two entries into a loop of A and B. */
	const struct ptx_func *f =
		body(KERNEL, "@%p1 bra B;\nA:\n" MARK(1) "@%p2 bra E;\nB:\n" MARK(
				     2) "@%p3 bra A;\nE:\n" MARK(3) "ret;\n");

	cr_assert_eq(meets(f, 0), 3);
	cr_assert_eq(meets(f, 1), 3);
	cr_assert_eq(meets(f, 2), 3);
	ptx_module_free(m);
}

Test(ptx_flow, switch_table)
{
	const struct ptx_func *f = body(
		KERNEL,
		"T: .branchtargets A, B, C;\nbrx.idx %r1, T;\nA:\n" MARK(
			1) "bra E;\n"
			   "B:\n" MARK(2) "bra E;\nC:\n" MARK(3) "E:\n" MARK(4) "ret;\n");

	cr_assert_eq(meets(f, 0), 4);
	cr_assert_eq(f->ntables, 1);
	cr_assert_eq(f->tables[0].n, 3);
	cr_assert_eq(f->insns[f->tables[0].target[1]].o[1].imm, 2);
	ptx_module_free(m);
}

Test(ptx_flow, both_ways_to_the_same_place)
{
	const struct ptx_func *f = body(KERNEL, "@%p1 bra A;\nA:\n" MARK(1) "ret;\n");

	cr_assert_eq(meets(f, 0), 1);
	ptx_module_free(m);
}

Test(ptx_flow, label_at_the_end_has_an_instruction)
{
	const struct ptx_func *f = body(KERNEL, "@%p1 bra E;\n" MARK(1) "trap;\nE:\n");

	cr_assert_eq(f->insns[f->ninsns - 1].op, PTX_RET);
	cr_assert_eq(f->insns[0].o[0].idx, f->ninsns - 1);
	ptx_module_free(m);
}

Test(ptx_flow, labels_belong_to_their_block)
{
	const struct ptx_func *f =
		body(KERNEL, "{ L: " MARK(1) "@%p1 bra L; }\n{ L: " MARK(
				     2) "@%p2 bra L; "
					"bra E; }\n" MARK(3) "E: ret;\n");

	cr_assert_eq(f->insns[1].o[0].idx, 0);
	cr_assert_eq(f->insns[3].o[0].idx, 2);
	ptx_module_free(m);
	ptx_test_refuse(PTX_HEAD KERNEL "{ { L: ret; } bra L; }", "Unknown symbol 'L'");
	ptx_test_refuse(PTX_HEAD KERNEL "{ L: ret;\nL: ret; }",
			"line 5; error   : Duplicate definition of label 'L'");
}

/* A slow but plain reference: a post-dominator is where every path to the end passes;
 * found by taking the candidate away and looking whether the end can still be reached. */
static bool reaches_end(const struct ptx_func *f, uint32_t from, int64_t without)
{
	static uint8_t seen[512];
	uint32_t stack[512], top = 0;

	memset(seen, 0, sizeof(seen));
	stack[top++] = from;
	seen[from] = 1;
	while (top) {
		uint32_t i = stack[--top], next[2], n = 0;

		if (i == without)
			continue;
		if (f->insns[i].op == PTX_RET)
			return true;
		if (f->insns[i].op == PTX_BRA)
			next[n++] = f->insns[i].o[0].idx;
		if (f->insns[i].op != PTX_BRA || f->insns[i].guard >= 0)
			next[n++] = i + 1;
		while (n--) {
			if (!seen[next[n]]) {
				seen[next[n]] = 1;
				stack[top++] = next[n];
			}
		}
	}
	return false;
}

static void check_against_reference(const struct ptx_func *f)
{
	for (uint32_t i = 0; i < f->ninsns; i++) {
		int64_t at = f->insns[i].reconv;

		if (f->insns[i].op != PTX_BRA || f->insns[i].guard < 0 ||
		    !reaches_end(f, i, -1))
			continue;
		if (at >= 0)
			cr_assert(!reaches_end(f, i, at), "%u does not meet at %ld", i,
				  (long)at);
		/* Nothing else that all pass lies before it. */
		for (uint32_t k = 0; k < f->ninsns; k++) {
			if (k == i || k == at || reaches_end(f, i, k) ||
			    f->insns[k].op == PTX_RET)
				continue;
			cr_assert(at >= 0, "%u meets at %u", i, k);
			cr_assert(!reaches_end(f, at, k), "%u meets at %u before %ld", i,
				  k, (long)at);
		}
	}
}

Test(ptx_flow, random_graphs)
{
	static char text[16384];
	unsigned seed = 7;

	for (int round = 0; round < 300; round++) {
		int blocks = 3 + round % 30;
		size_t n = 0;

		for (int b = 0; b < blocks; b++) {
			unsigned a = (seed = seed * 1103515245 + 12345) >> 16;
			unsigned c = (seed = seed * 1103515245 + 12345) >> 16;

			n += (size_t)snprintf(text + n, sizeof(text) - n,
					      "L%d: mov.u32 %%r1, %d;\n", b, b);
			if (c % 4)
				n += (size_t)snprintf(text + n, sizeof(text) - n,
						      "@%%p1 bra L%u;\n", a % blocks);
			if (c % 8 == 5)
				n += (size_t)snprintf(text + n, sizeof(text) - n,
						      "bra L%u;\n", a / 64 % blocks);
		}
		check_against_reference(body(KERNEL, text));
		ptx_module_free(m);
	}
}
