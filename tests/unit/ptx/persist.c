/* SPDX-License-Identifier: Apache-2.0 */
/* Persistent forms of kernels: which have one, and what of the text stays as it was. */
#include <stdlib.h>

#include "ptx/rewrite/persist.h"
#include "text.h"

#define KERNEL(body) PTX_HEAD ".visible .entry k(.param .u64 a)\n{\n" PTX_REGS body "}\n"

static struct ptx_persist p;
static bool yields;

static void rewrite(const char *text)
{
	struct ptx_log log = {ptx_test_log, sizeof(ptx_test_log), 0};
	int r = ptx_persist(text, strlen(text), yields, &log, &p);
	struct ptx_module *m;

	cr_assert_eq(r, 0, "%s\n%s", ptx_test_log, text);
	if (!p.text)
		return;
	r = ptx_parse_source(p.text, p.len, &log, &m);
	cr_assert_eq(r, 0, "%s\n%s", ptx_test_log, p.text);
	cr_assert(!ptx_verify(m), "%s\n%s", ptx_verify(m), p.text);
	ptx_module_free(m);
}

/* k has a form in which s stands; NULL: whatever. */
static void taken(const char *text, const char *s)
{
	rewrite(text);
	for (uint32_t i = 0; i < p.n; i++)
		cr_assert(!p.kernels[i].why, "%s: %s\n%s", p.kernels[i].name,
			  p.kernels[i].why, text);
	cr_assert(p.n_copies == p.n && p.text);
	cr_assert(!strncmp(p.text, text, strlen(text)), "the text itself has changed");
	cr_assert(!s || strstr(p.text + strlen(text), s), "no \"%s\" in\n%s", s, p.text);
	ptx_persist_fini(&p);
}

static void left(const char *text, const char *why)
{
	rewrite(text);
	cr_assert(p.n == 1 && !p.text && p.kernels[0].why, "taken: %s", text);
	cr_assert(strstr(p.kernels[0].why, why), "%s: %s", p.kernels[0].why, text);
	ptx_persist_fini(&p);
}

Test(ptx_persist, blocks_come_from_the_counter)
{
	taken(KERNEL("mov.u32 %r1, %ctaid.x;\nret;\n"), "mov.u32 %r1, %weft_pt_t;");
	taken(KERNEL("@%p1 mov.u32 %r1, %nctaid.z;\nret;\n"),
	      "ld.param.u32 %weft_pt_t, [weft_pt_args+16];\n\t@%p1 mov.u32 %r1, "
	      "%weft_pt_t;");
	taken(KERNEL("cvt.u16.u32 %h1, %ctaid.y;\nret;\n"),
	      "cvt.u16.u32 %h1, %weft_pt_t;");
	taken(KERNEL("{ .reg .b32 %r<4>; mov.u32 %r1, %ctaid.z; }\nret;\n"), NULL);
}

Test(ptx_persist, ends_go_on_with_the_next_block)
{
	taken(KERNEL("ret;\n"), "bra weft_pt_next;\n}");
	taken(KERNEL("@!%p1 ret;\nexit;\n"),
	      "@!%p1 bra weft_pt_next;\nbra weft_pt_next;");
	taken(KERNEL("mov.u32 %r1, 1;\n"), "mov.u32 %r1, 1;\n\tbra weft_pt_next;\n}");
	taken(KERNEL("{ ret.uni; }\n"), "{ bra weft_pt_next; }");
}

Test(ptx_persist, parameters_follow_those_of_the_kernel)
{
	taken(PTX_HEAD ".entry k { ret; }\n", "k(.param .align 8 .b8 weft_pt_args[48])");
	taken(PTX_HEAD ".entry k() { ret; }\n",
	      "k(.param .align 8 .b8 weft_pt_args[48])");
	taken(PTX_HEAD ".weak .entry k(.param .u32 a /* ) */) { ret; }\n", NULL);
	taken(PTX_HEAD ".entry k(.param .u32 a) .maxntid 32, 1, 1 { ret; }\n",
	      "weft_pt_args[48]) .maxntid 32, 1, 1");
}

Test(ptx_persist, copies_under_way_are_waited_for)
{
	taken(KERNEL("cp.async.ca.shared.global [%r1], [%d1], 4;\nret;\n"),
	      "cp.async.wait_all;\n\tbarrier.sync 0;");
	taken(PTX_HEAD ".func f()\n{\n" PTX_REGS
		       "cp.async.ca.shared.global [%r1], [%d1], 4;\nret;\n}\n"
		       ".entry k()\n{\ncall f;\nret;\n}\n",
	      "cp.async.wait_all;\n\tbarrier.sync 0;");
}

Test(ptx_persist, what_the_parser_ignores_stays)
{
	taken(KERNEL("ld.global.L1::evict_last.L2::128B.u32 %r1, [%d1]; .loc 1 2 "
		     "3\nret;\n"),
	      "ld.global.L1::evict_last.L2::128B.u32 %r1, [%d1]; .loc 1 2 3\n");
}

Test(ptx_persist, kernels_are_taken_one_by_one)
{
	rewrite(PTX_HEAD
		".entry a { ret; }\n.entry b { griddepcontrol.wait; ret; }\n"
		".entry c { wgmma.fence.sync.aligned; ret; }\n.entry d { ret; }\n");
	cr_assert(p.n == 4 && p.n_copies == 2);
	cr_assert(!p.kernels[0].why && !p.kernels[3].why);
	cr_assert_str_eq(p.kernels[1].why, "waits for another kernel");
	cr_assert_str_eq(p.kernels[2].why, "wgmma.fence");
	cr_assert(strstr(p.text, PTX_PERSIST_NAME "d") &&
		  !strstr(p.text, PTX_PERSIST_NAME "b"));
	ptx_persist_fini(&p);
}

/* Others would wait at a barrier for threads that are at the loop's head. */
Test(ptx_persist, threads_that_end_before_a_barrier)
{
#define MINE "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 7;\n"
#define ALL  "ld.param.u32 %r1, [a]; setp.eq.u32 %p1, %r1, 7;\n"
	const char why[] = "end before others meet";

	left(KERNEL(MINE "@%p1 ret;\nbar.sync 0;\nret;\n"), why);
	left(KERNEL(MINE "@%p1 bra E;\nbar.sync 0;\nE: ret;\n"), "pass a barrier by");
	taken(KERNEL(MINE "@%p1 bra E;\nbar.sync 1, 32;\nE: ret;\n"), NULL);
	left(KERNEL(MINE "@%p1 bra A;\nbra B;\nA: ret;\nB: bar.warp.sync -1;\nret;\n"),
	     why);
	left(KERNEL(MINE "@%p1 exit;\nshfl.sync.idx.b32 %r2, %r1, 0, 31, -1;\nret;\n"),
	     why);
	left(KERNEL("ld.global.u32 %r1, [%d1]; setp.eq.u32 %p1, %r1, 7;\n"
		    "@%p1 ret;\nbar.sync 0;\nret;\n"),
	     why);
	/* by what a part of them has done before */
	left(KERNEL(MINE "mov.u32 %r2, 0;\n@%p1 bra A;\nmov.u32 %r2, 1;\n"
			 "A: setp.eq.u32 %p2, %r2, 0;\n@%p2 ret;\nbar.sync 0;\nret;\n"),
	     why);
	/* in a loop that threads leave one by one */
	left(KERNEL(MINE "mov.u32 %r3, 0;\nL: add.u32 %r3, %r3, 1;\n"
			 "setp.lt.u32 %p2, %r3, %r1;\n@%p2 bra L;\n"
			 "setp.eq.u32 %p3, %r3, 3;\n@%p3 ret;\nbar.sync 0;\nret;\n"),
	     why);
	taken(KERNEL(MINE "@%p1 ret;\nst.global.u32 [%d1], %r1;\nret;\n"), NULL);
	taken(KERNEL(MINE "bar.sync 0;\n@%p1 ret;\nst.global.u32 [%d1], %r1;\nret;\n"),
	      NULL);
	taken(KERNEL(ALL "@%p1 ret;\nbar.sync 0;\nret;\n"), NULL);
	taken(KERNEL(ALL "@%p1 bra E;\nbar.sync 0;\nE: ret;\n"), NULL);
	taken(KERNEL("mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 7;\n"
		     "@%p1 ret;\nbar.sync 0;\nret;\n"),
	      NULL);
	left(KERNEL(MINE
		    "bar.red.or.pred %p2, 1, 32, %p1;\n@%p2 ret;\nbar.sync 0;\nret;\n"),
	     why);
	/* by what all of them have found out together */
	taken(KERNEL(MINE "bar.red.or.pred %p2, 0, %p1;\n@%p2 ret;\nbar.sync 0;\nret;\n"),
	      NULL);
	taken(KERNEL(MINE
		     "@%p1 bra A;\nst.global.u32 [%d1], %r1;\nA: bar.sync 0;\nret;\n"),
	      NULL);
}

static void of_rows(const char *text, bool rows)
{
	rewrite(text);
	cr_assert(p.n == 1 && p.text && !p.kernels[0].why, "%s\n%s", p.kernels[0].why,
		  text);
	cr_assert_eq(p.kernels[0].rows, rows, "%s", text);
	cr_assert_eq(strstr(p.text, PTX_PERSIST_ROWS "k[1]") != NULL, rows, "%s", p.text);
	ptx_persist_fini(&p);
}

/* Others of the warp would wait for threads that are at the loop's head, not for those of another. */
Test(ptx_persist, threads_of_a_warp_that_end_before_others)
{
#define LANES "bar.warp.sync -1;\n"
	const char why[] = "end before others meet";

	left(KERNEL(MINE "@%p1 bra E;\n" LANES "E: ret;\n"), why);
	left(KERNEL(MINE "@%p1 bra E;\nbar.warp.sync %r2;\nE: ret;\n"), why);
	left(KERNEL(MINE "@%p1 bra E;\nbar.warp.sync 65535;\nE: ret;\n"), why);
	left(KERNEL(MINE "L: vote.sync.all.pred %p2, %p1, -1;\nadd.u32 %r1, %r1, 32;\n"
			 "setp.lt.u32 %p1, %r1, 1562;\n@%p1 bra L;\nret;\n"),
	     why);
	of_rows(KERNEL(MINE "@%p1 bra E;\nactivemask.b32 %r2;\nbar.warp.sync %r2;\n"
			    "E: ret;\n"),
		false);
	/* all that have passed it by come together with the others again */
	of_rows(KERNEL(MINE "@%p1 bra E;\n" LANES "E: " LANES "ret;\n"), false);
	of_rows(KERNEL(LANES MINE "@%p1 bra E;\nst.global.u32 [%d1], %r1;\nE: ret;\n"),
		false);
	/* what all of a warp have in common */
	of_rows(KERNEL("mov.u32 %r1, %warpid; setp.eq.u32 %p1, %r1, 0;\n@%p1 bra "
		       "E;\n" LANES "E: ret;\n"),
		false);
	of_rows(KERNEL(MINE "vote.sync.any.pred %p2, %p1, -1;\n@%p2 bra E;\n" LANES
			    "E: ret;\n"),
		false);
#define COLUMN(how) KERNEL("mov.u32 %r1, %tid.x;\n" how "@%p1 bra E;\n" LANES "E: ret;\n")
	of_rows(COLUMN("setp.gt.u32 %p1, %r1, 31;\n"), true);
	of_rows(COLUMN("setp.lt.s32 %p1, %r1, 64;\n"), true);
	of_rows(COLUMN("mov.u32 %r2, %r1; shr.u32 %r3, %r2, 5; setp.ne.u32 %p1, %r3, "
		       "0;\n"),
		true);
	of_rows(COLUMN("and.b32 %r3, %r1, 992; setp.ne.u32 %p1, %r3, 0;\n"), true);
	of_rows(COLUMN("mov.u32 %r2, %tid.y; setp.ne.u32 %p1, %r2, 0;\n"), true);
	left(COLUMN("setp.gt.u32 %p1, %r1, 30;\n"), why);
	left(COLUMN("setp.lt.u32 %p1, %r1, 48;\n"), why);
	left(COLUMN("setp.eq.u32 %p1, %r1, 64;\n"), why);
	left(COLUMN("shr.u32 %r3, %r1, 4; setp.ne.u32 %p1, %r3, 0;\n"), why);
	left(COLUMN("and.b32 %r3, %r1, 16; setp.ne.u32 %p1, %r3, 0;\n"), why);
	left(COLUMN("add.u32 %r1, %r1, 1; setp.gt.u32 %p1, %r1, 31;\n"), why);
	left(COLUMN("mov.u32 %r2, %laneid; setp.gt.u32 %p2, %r2, 3;\n"
		    "setp.gt.and.u32 %p1, %r1, 31, %p2;\n"),
	     why);
}

Test(ptx_persist, calls_count_as_what_they_do)
{
#define CALLS(callee, before)                                                            \
	PTX_HEAD ".func f()\n{\n" PTX_REGS callee "ret;\n}\n"                            \
		 ".visible .entry k()\n{\n" PTX_REGS before "call f;\nret;\n}\n"

	left(CALLS("bar.sync 0;\n", MINE "@%p1 ret;\n"), "end before others meet");
	taken(CALLS("bar.sync 0;\n", ""), NULL);
	left(CALLS(MINE "@%p1 bra E;\n" LANES "E: ", ""), "pass others by in a function");
	left(CALLS(MINE "@%p1 bra E;\nbar.sync 0;\nE: ", ""),
	     "pass others by in a function");
	taken(CALLS(MINE LANES, ""), NULL);
	taken(CALLS("st.global.u32 [%d1], 1;\n", MINE "@%p1 ret;\n"), NULL);
	left(CALLS("mov.u32 %r1, %ctaid.x;\n", ""), "asks for its block in a function");
	left(CALLS("@%p1 exit;\n", ""), "ends threads in a function");
	left(PTX_HEAD
	     ".extern .func (.param .b32 r) cudaDeviceSynchronize();\n"
	     ".entry k { .param .b32 x; call (x), cudaDeviceSynchronize; ret; }\n",
	     "device's runtime");
}

Test(ptx_persist, what_is_left_alone)
{
	left(KERNEL("mov.u32 %r1, %cluster_ctarank;\nret;\n"), "cluster");
	left(PTX_HEAD ".entry k .reqnctapercluster 2, 1, 1 { ret; }\n", "cluster");
	left(KERNEL("mov.u32 %r1, %envreg1;\nret;\n"), "whole grid");
	left(KERNEL("mov.u32 %r1, %total_smem_size;\nret;\n"), "shared memory");
	left(KERNEL("bar.arrive 1, 64;\nret;\n"), "arrives");
	left(KERNEL("barrier.sync %r1;\nret;\n"), "numbers of its barriers");
	left(KERNEL("bar.sync 0, 32;\nret;\n"), "some threads only");
	left(KERNEL("mbarrier.init.shared.b64 [%r1], 1;\nret;\n"), "barriers in shared");
	left(KERNEL("alloca.u64 %d1, 16;\nret;\n"), "stack");
	left(KERNEL(".global .u32 own;\nret;\n"), "variables of its own");
	left(KERNEL("mov.u16 %h1, %ctaid.x;\nret;\n"), "unusual");
	left(KERNEL("mov.u32 %r1, %ctaid .x;\nret;\n"), "unusual");
	left(PTX_HEAD ".entry k { .reg .b32 weft_pt_x; ret; }\n", "names that are ours");
	left(".version 5.0\n.target sm_50\n.address_size 64\n.entry k { ret; }\n",
	     "older");
	left(PTX_HEAD ".entry k(.param .b8 a[4090]) { ret; }\n", "parameters");
}

Test(ptx_persist, what_is_no_ptx_is_told)
{
	struct ptx_log log = {ptx_test_log, sizeof(ptx_test_log), 0};

	cr_assert_lt(ptx_persist("nothing", 7, false, &log, &p), 0);
	cr_assert(*ptx_test_log && !p.text);
	ptx_persist_fini(&p);
	rewrite(PTX_HEAD);
	cr_assert(!p.n && !p.text);
	ptx_persist_fini(&p);
}
