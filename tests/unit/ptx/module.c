/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: directives, parameters, variables and their initialisers, calls, shared
 * memory, and the linking of several. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "text.h"

Test(ptx_module, a_header_is_read_and_a_wrong_one_named)
{
	struct ptx_module *m = ptx_test_module(
		".version 7.8\n.target sm_90a, debug\n.address_size 64\n");

	cr_assert_eq(m->version, 78);
	cr_assert_eq(m->sm, 90);
	cr_assert_eq(m->sm_suffix, 'a');
	ptx_module_free(m);
	ptx_test_refuse("", "Missing .version directive");
	ptx_test_refuse(".target sm_90\n", "Missing .version directive");
	ptx_test_refuse(".version 9.1\n", "Unsupported .version 9.1");
	ptx_test_refuse(".version 9.0\n.target sm_90\n.address_size 32\n", "32-Bit");
	ptx_test_refuse(".version 9.0\n.visible .entry k() { ret; }", "Missing .target");
	ptx_test_refuse(PTX_HEAD "\n\ngarbage\n", "line 6; fatal   : Parsing error near "
						  "'garbage'");
	ptx_test_refuse(PTX_HEAD "\001", "Parsing error near '?'");
	ptx_test_refuse(PTX_HEAD "/* no end", "Parsing error");
	ptx_test_refuse(PTX_HEAD ".entry k() { ret;", "Parsing error near 'end of text'");
}

Test(ptx_module, parameter_layout)
{
	struct ptx_module *m = ptx_test_module(
		PTX_HEAD
		".visible .entry k(.param .u8 a, .param .u64 .ptr .global .align 4 b,"
		" .param .u16 c, .param .align 4 .b8 d[6], .param .f64 e,"
		" .param .align 16 .b8 f[32], .param .u8 g)"
		".maxntid 128, 2\n.minnctapersm 3\n.reqntid 7\n.maxnreg 64\n"
		".reqnctapercluster 2, 1, 1\n.explicitcluster { ret; }");
	static const struct {
		uint32_t off, size;
	} want[] = {{0, 1}, {8, 8}, {16, 2}, {20, 6}, {32, 8}, {48, 32}, {80, 1}};
	const struct ptx_func *f = ptx_find_func(m, "k");

	cr_assert_eq(f->nparams, ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		cr_assert_eq(f->params[i].offset, want[i].off);
		cr_assert_eq(f->params[i].size, want[i].size);
	}
	cr_assert_eq(f->param_bytes, 81);
	cr_assert_eq(f->maxntid[0], 128);
	cr_assert_eq(f->maxntid[1], 2);
	cr_assert_eq(f->maxntid[2], 1);
	cr_assert_eq(f->reqntid[0], 7);
	cr_assert_eq(f->minnctapersm, 3);
	cr_assert_eq(f->maxnreg, 64);
	cr_assert_eq(f->reqnctapercluster[0], 2);
	cr_assert(f->explicitcluster);
	ptx_module_free(m);
	m = ptx_test_module(PTX_HEAD ".entry k(.param .align 4 .b8 a[32764]) { ret; }");
	ptx_module_free(m);
	ptx_test_refuse(
		PTX_HEAD ".entry k(.param .align 4 .b8 a[32764], .param .b8 b) {}",
		"Formal parameter space overflowed (32765 bytes required, max 32764 "
		"bytes allowed) in function 'k'");
}

Test(ptx_module, frame_of_a_device_function)
{
	struct ptx_module *m = ptx_test_module(
		PTX_HEAD
		".func (.param .align 8 .b8 r[16]) f(.param .b32 a, .param .b64 b)\n"
		"{ .reg .b64 %d<4>; .local .align 16 .b8 depot[40];\n"
		"ld.param.b64 %d1, [b];\nst.param.b64 [r+8], %d1;\n"
		"{ .param .b32 p0; .param .b64 p1; .param .align 8 .b8 q[16];\n"
		"st.param.b64 [p1], %d1;\ncall (q), f, (p0, p1);\n}\n"
		"{ .param .b64 again; st.param.b64 [again], %d1; }\n"
		"mov.u64 %d2, depot; mov.u64 %d3, a;\nret; }");
	const struct ptx_func *f = ptx_find_func(m, "f");
	const struct ptx_insn *in = f->insns;

	cr_assert_eq(f->params[0].offset, 0);
	cr_assert_eq(f->params[1].offset, 8);
	cr_assert_geq(f->rets[0].offset, 16);
	cr_assert_eq(in[0].o[1].kind, PTX_O_PARAM);
	cr_assert_eq(in[0].o[1].off, 8);
	cr_assert_eq(in[1].o[0].off, f->rets[0].offset + 8);
	cr_assert_geq(in[2].o[0].off, f->rets[0].offset + 16);
	cr_assert_eq(in[3].op, PTX_CALL);
	cr_assert_eq(in[3].o[2].elem[1].kind, PTX_O_PARAM);
	cr_assert_eq(in[3].o[2].elem[1].off, in[2].o[0].off);
	cr_assert_eq(in[3].o[1].elem[0].idx, 16);
	cr_assert_eq(in[4].o[0].off, in[3].o[2].elem[0].off, "the area is used again");
	cr_assert_eq(in[5].o[1].kind, PTX_O_LOCAL);
	cr_assert_eq(in[6].o[1].kind, PTX_O_PARAM);
	cr_assert(f->param_addr_taken);
	cr_assert_eq(f->local_bytes, 40);
	cr_assert_eq(f->local_align, 16);
	cr_assert_eq(f->ncallees, 1);
	ptx_module_free(m);
}

Test(ptx_module, initialisers_become_bytes_and_relocations)
{
	struct ptx_module *m = ptx_test_module(
		PTX_HEAD
		".extern .global .align 4 .u32 ext;\n"
		".func fn() { ret; }\n"
		".global .align 4 .u16 data[2][3] = {{1, -2}, {3, 4, 5}};\n"
		".visible .global .align 8 .u64 ptr[4] = {generic(data)+8, fn, 5};\n"
		".global .align 8 .b8 bytes[8] = {0xFF(data), 0xFF00(data+1), 7};\n"
		".const .f32 fl[] = {1.5, 0f40000000, 3};\n"
		".const .align 8 .f64 dbl = 0d4000000000000000;\n"
		".global .attribute(.managed) .align 4 .s32 man = -7;\n"
		".global .align 8 .u64 self = generic(self);\n");
	static const uint8_t data[] = {1, 0, 0xfe, 0xff, 0, 0, 3, 0, 4, 0, 5, 0};
	const struct ptx_var *v = ptx_find_var(m, "data");

	cr_assert_eq(v->size, 12);
	cr_assert_eq(v->init_bytes, 12);
	cr_assert(!memcmp(v->init, data, 12));
	v = ptx_find_var(m, "ptr");
	cr_assert_eq(v->linkage, PTX_LINK_VISIBLE);
	cr_assert_eq(v->size, 32);
	cr_assert_eq(v->init_bytes, 24);
	cr_assert_eq(v->init[16], 5);
	cr_assert_eq(v->nrelocs, 2);
	cr_assert(v->relocs[0].generic && !v->relocs[0].is_func);
	cr_assert_eq(v->relocs[0].addend, 8);
	cr_assert_eq(v->relocs[0].size, 8);
	cr_assert_str_eq(m->vars[v->relocs[0].target].name, "data");
	cr_assert(v->relocs[1].is_func);
	cr_assert_eq(v->relocs[1].off, 8);
	cr_assert(ptx_find_func(m, "fn")->addr_taken);
	v = ptx_find_var(m, "bytes");
	cr_assert_eq(v->nrelocs, 2);
	cr_assert_eq(v->relocs[1].mask, 0xff00);
	cr_assert_eq(v->relocs[1].shift, 8);
	cr_assert_eq(v->relocs[1].size, 1);
	cr_assert_eq(v->relocs[1].addend, 1);
	v = ptx_find_var(m, "fl");
	cr_assert_eq(v->size, 12);
	cr_assert_eq(v->space, PTX_S_CONST);
	cr_assert_eq(v->init[11], 0x40);
	cr_assert(ptx_find_var(m, "man")->managed);
	cr_assert_eq(ptx_find_var(m, "ext")->linkage, PTX_LINK_EXTERN);
	ptx_module_free(m);
}

Test(ptx_module, bad_variables)
{
	ptx_test_refuse(PTX_HEAD ".global .u32 a = b;", "Unknown symbol 'b'");
	ptx_test_refuse(PTX_HEAD ".global .u32 a[2] = {1, 2, 3};", "Too many values");
	ptx_test_refuse(PTX_HEAD ".global .u32 a[0] = {1};", "Too many values");
	ptx_test_refuse(PTX_HEAD ".global .u32 a[2][2] = {{1, 2, 3}};",
			"Too many values");
	ptx_test_refuse(PTX_HEAD ".global .u32 a[];", "Size of array 'a' is missing");
	ptx_test_refuse(PTX_HEAD ".global .u32 a; .global .u32 a;",
			"Duplicate definition");
	ptx_test_refuse(PTX_HEAD ".shared .u32 a = 1;", "must not be initialised");
	ptx_test_refuse(PTX_HEAD ".global .align 3 .u32 a;", "power of two");
	ptx_test_refuse(PTX_HEAD ".global .pred a;", "not for variables in memory");
	ptx_test_refuse(PTX_HEAD ".global .u64 a[0x10000000000][0x10000000000];",
			"too large");
	ptx_test_refuse(PTX_HEAD ".global .b8 a[2][0x1000000000] = {{1}, {2}};",
			"Initialisers are too large");
	ptx_test_refuse(PTX_HEAD ".global .texref t;", "Textures");
	ptx_test_refuse(PTX_HEAD ".global .align 4 .u32 a = 1.5;",
			"does not fit its type");
}

Test(ptx_module, calls_match_the_signatures_of_functions)
{
	struct ptx_module *m = ptx_test_module(
		PTX_HEAD
		".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);"
		".extern .func unused();\n"
		".weak .func (.reg .u32 %r) old (.reg .u32 %a, .reg .f64 %b)\n"
		"{ add.u32 %r, %a, 1; ret; }\n"
		".func f(.param .b32 a);\n"
		".visible .entry k() { .reg .u32 %x; .reg .b64 %d; .param .b64 p;\n"
		"call (%x), old, (%x, 1.5); call (_), vprintf, (p, %d); call f, (3);\n"
		"mov.u64 %d, f;\n"
		"P: .callprototype (.param .b32 _) _ (.param .b64 _);\n"
		"call (%x), %d, (%d), P; }\n"
		".func f(.param .b32 a) .noreturn { trap; }\n");
	const struct ptx_func *k = ptx_find_func(m, "k"), *old = ptx_find_func(m, "old");

	cr_assert_eq(old->params[0].reg, (int32_t)old->insns[0].o[1].idx);
	cr_assert_eq(old->rets[0].reg, (int32_t)old->insns[0].o[0].idx);
	cr_assert_eq(k->insns[0].o[2].elem[1].imm, 0x3ff8000000000000);
	cr_assert_eq(k->ncallees, 3);
	cr_assert(k->has_indirect_call);
	cr_assert_eq(k->insns[4].o[3].kind, PTX_O_PROTO);
	cr_assert(!ptx_sig_match(&k->protos[0], ptx_find_func(m, "f")));
	cr_assert(!ptx_sig_match(&k->protos[0], ptx_find_func(m, "vprintf")));
	cr_assert(ptx_find_func(m, "f")->addr_taken);
	cr_assert(ptx_find_func(m, "f")->noreturn);
	cr_assert(!ptx_find_func(m, "unused")->called);
	ptx_module_free(m);
	ptx_test_refuse(PTX_HEAD ".func f(); .func f(.param .b32 a) { ret; }",
			"Function 'f' is declared in two different ways");
	ptx_test_refuse(PTX_HEAD ".func f() { ret; } .func f() { ret; }",
			"Duplicate definition of function 'f'");
	ptx_test_refuse(PTX_HEAD ".entry k(.reg .u32 a) { ret; }", "syntax error");
}

Test(ptx_module, an_alias_calls_what_it_stands_for)
{
	struct ptx_module *m = ptx_test_module(
		PTX_HEAD ".visible .func b(); .visible .func a() { ret; }\n.alias b, a;\n"
			 ".visible .entry k() { call b; ret; }");
	const struct ptx_func *k = ptx_find_func(m, "k");

	cr_assert_str_eq(m->funcs[k->insns[0].o[0].idx].name, "a");
	ptx_module_free(m);
	ptx_test_refuse(PTX_HEAD ".func b(); .func a(); .alias b, a;", "Illegal alias");
}

Test(ptx_module, registers_of_inner_blocks)
{
	struct ptx_module *m = ptx_test_module(
		PTX_HEAD ".entry k() { .reg .b32 %r<4>; .reg .v2 .f32 v; .reg .f32 %f;\n"
			 "mov.u32 %r1, 1;\n{ .reg .b64 %r<4>; mov.u64 %r1, 2; }\n"
			 "mov.u32 %r1, 3; mov.f32 %f, v.y; }");
	const struct ptx_func *k = ptx_find_func(m, "k");

	cr_assert_eq(k->insns[0].o[0].idx, k->insns[2].o[0].idx);
	cr_assert_neq(k->insns[0].o[0].idx, k->insns[1].o[0].idx);
	cr_assert_eq(k->insns[3].o[1].idx, 1);
	ptx_module_free(m);
}

Test(ptx_module, only_used_registers_exist)
{
	struct ptx_module *m =
		ptx_test_module(PTX_HEAD ".entry k() { .reg .b32 %r<4000000000>;\n"
					 "mov.u32 %r3999999999, 1; }");

	cr_assert_eq(ptx_find_func(m, "k")->nregs, 1);
	ptx_module_free(m);
}

Test(ptx_module, shared_memory)
{
	struct ptx_module *m = ptx_test_module(
		PTX_HEAD
		".shared .align 4 .b8 common[12];\n.extern .shared .align 32 .b8 dyn[];\n"
		".shared .align 8 .b8 a_only[24];\n.shared .align 4 .b8 unused[4096];\n"
		".func f() { .reg .u32 %r; ld.shared.u32 %r, [common]; ret; }\n"
		".func g() { .reg .u32 %r; ld.shared.u32 %r, [dyn]; ret; }\n"
		".entry a() { .reg .u32 %r; ld.shared.u32 %r, [a_only]; call f; call g; "
		"}\n"
		".entry b() { .shared .b8 own[100]; .reg .u32 %r;\n"
		"ld.shared.u32 %r, [own]; call f; ret; }\n"
		".entry c() { ret; }\n");
	const struct ptx_func *a = ptx_find_func(m, "a"), *b = ptx_find_func(m, "b"),
			      *c = ptx_find_func(m, "c");

	cr_assert_eq(ptx_find_var(m, "common")->shared_off, 0);
	cr_assert_eq(ptx_find_var(m, "a_only")->shared_off, 16);
	cr_assert_eq(a->static_shared_bytes, 40);
	cr_assert_eq(a->dyn_shared_off, 64);
	cr_assert(a->uses_dyn_shared);
	cr_assert_eq(b->static_shared_bytes, 112);
	cr_assert(!b->uses_dyn_shared);
	cr_assert_eq(c->static_shared_bytes, 0);
	cr_assert_null(ptx_find_var(m, "b.own"));
	ptx_module_free(m);
}

static int link2(const char *a, const char *b, struct ptx_module **ret)
{
	struct ptx_log log = {ptx_test_log, sizeof(ptx_test_log), 0};
	const struct ptx_module *in[2] = {ptx_test_module(a), ptx_test_module(b)};
	int r;

	*ptx_test_log = 0;
	r = ptx_link(in, 2, &log, ret);
	/* The result must not lean on its parts. */
	ptx_module_free((struct ptx_module *)in[0]);
	ptx_module_free((struct ptx_module *)in[1]);
	if (r == 0)
		cr_assert_null(ptx_verify(*ret), "%s", ptx_verify(*ret));
	return r;
}

Test(ptx_module, linking_resolves_externs_and_keeps_locals_apart)
{
	struct ptx_module *m;
	const struct ptx_func *k;
	const struct ptx_var *v;

	cr_assert_eq(
		link2(PTX_HEAD
		      ".extern .func (.param .b32 r) f(.param .b32 a);\n"
		      ".extern .func vanish();\n.extern .global .align 4 .u32 x;\n"
		      ".global .align 4 .u32 mine = 1;\n"
		      ".weak .func w() { trap; }\n.extern .shared .b8 dyn[];\n"
		      ".visible .entry k() { .reg .b32 %r; .reg .b64 %d;\n"
		      "call (%r), f, (%r); mov.u64 %d, x; mov.u64 %d, mine;\n"
		      "call vanish; call w; st.shared.u32 [dyn], 1; }",
		      PTX_HEAD
		      ".global .align 4 .u32 mine = 2;\n"
		      ".visible .global .align 4 .u32 x = 9;\n"
		      ".visible .global .align 8 .u64 px = generic(x);\n"
		      ".weak .func w() { ret; }\n.extern .shared .align 64 .b8 dyn[];\n"
		      ".visible .func (.param .b32 r) f(.param .b32 a)\n"
		      "{ .shared .u32 s; st.shared.u32 [s], 3; ret; }\n",
		      &m),
		0, "%s", ptx_test_log);
	k = ptx_find_func(m, "k");
	cr_assert_str_eq(m->funcs[k->insns[0].o[0].idx].name, "f");
	cr_assert(m->funcs[k->insns[0].o[0].idx].has_body);
	v = &m->vars[k->insns[1].o[1].idx];
	cr_assert_str_eq(v->name, "x");
	cr_assert_eq(v->init[0], 9);
	v = &m->vars[k->insns[2].o[1].idx];
	cr_assert_eq(v->init[0], 1, "each module keeps its own");
	cr_assert_eq(m->funcs[k->insns[4].o[0].idx].insns[0].op, PTX_TRAP);
	v = ptx_find_var(m, "px");
	cr_assert_str_eq(m->vars[v->relocs[0].target].name, "x");
	cr_assert_eq(k->static_shared_bytes, 4);
	cr_assert_eq(k->dyn_shared_off, 64);
	ptx_module_free(m);
}

Test(ptx_module, linking_errors)
{
	struct ptx_module *m = NULL;

	cr_assert_eq(link2(PTX_HEAD ".visible .func f() { ret; }",
			   PTX_HEAD ".visible .func f() { ret; }", &m),
		     -EINVAL);
	cr_assert(strstr(ptx_test_log, "Multiple definition of 'f'"));
	cr_assert_eq(link2(PTX_HEAD ".extern .global .u32 x;", PTX_HEAD, &m), -EINVAL);
	cr_assert(strstr(ptx_test_log, "Undefined reference to 'x'"));
	cr_assert_eq(link2(PTX_HEAD ".extern .func f();",
			   PTX_HEAD ".visible .func f(.param .b32 a) { ret; }", &m),
		     -EINVAL);
	cr_assert(strstr(ptx_test_log, "two different ways"));
	cr_assert_null(m);
}

Test(ptx_module, deep_blocks_are_refused)
{
	static char text[70000];
	size_t n = (size_t)snprintf(text, sizeof(text), PTX_HEAD ".entry k() ");

	memset(text + n, '{', 60000);
	ptx_test_refuse(text, "nested too deep");
	n = (size_t)snprintf(text, sizeof(text), PTX_HEAD ".global .u32 a = ");
	memset(text + n, '{', 60000);
	ptx_test_refuse(text, "too deep");
}

Test(ptx_module, log_is_never_overrun)
{
	char small[40];

	for (size_t cap = 0; cap <= sizeof(small); cap++) {
		struct ptx_log log = {small, cap, 0};
		struct ptx_module *m = NULL;

		memset(small, 'x', sizeof(small));
		cr_assert_lt(ptx_parse("bad", 3, &log, &m), 0);
		for (size_t i = cap; i < sizeof(small); i++)
			cr_assert_eq(small[i], 'x');
	}
	struct ptx_module *m = NULL;

	cr_assert_lt(ptx_parse("bad", 3, NULL, &m), 0);
}

/* Long chains and ladders must not take more than linear time. */
Test(ptx_module, hostile_control_flow, .timeout = 60)
{
	const unsigned n = 60000;
	char *text = malloc(n * 64);
	struct ptx_module *m;
	uint64_t start = clock_now_ns();
	size_t len;

	cr_assert(text);
	len = (size_t)sprintf(text, PTX_HEAD ".entry k() { .reg .pred %%p;\n");
	for (unsigned i = 0; i < n; i++)
		len += (size_t)sprintf(text + len, "L%u: @%%p bra L%u;\n", i,
				       (n - i) * 7 % n);
	for (unsigned i = 0; i < n; i++)
		len += (size_t)sprintf(text + len, "@%%p bra L%u;\n", i);
	sprintf(text + len, "}\n");
	m = ptx_test_module(text);
	cr_assert_lt(clock_now_ns() - start, 20 * NSEC_PER_SEC);
	ptx_module_free(m);
	free(text);
}
