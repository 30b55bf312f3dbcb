/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads, stores, atomics and bulk copies in their many types. Each thread has 32 bytes of
 * its own at %i: %a at 0, %b at 8, %c at 16.
 */
#include <criterion/criterion.h>
#include <math.h>

#include "base/macros.h"
#include "check.h"

#define F(v) from_f32(v)
#define D(v) from_f64(v)
#define H(v) from_f16((v)&0xffff)
#define B(v) from_bf16((v)&0xffff)

static s64 sx(u64 v, unsigned bits)
{
	return (s64)(v << (64 - bits)) >> (64 - bits);
}

#define LOADS(X)                                                                         \
	X(ld_u8_16, "ld.global.u8 %d, [%i];", "wl--", (u8)a)                             \
	X(ld_s8_16, "ld.global.s8 %d, [%i];", "wl--", sx(a, 8))                          \
	X(ld_b8_32, "ld.global.b8 %d, [%i+1];", "il--", a >> 8 & 255)                    \
	X(ld_s8_32, "ld.global.s8 %d, [%i+2];", "il--", sx(a >> 16, 8))                  \
	X(ld_u8_64, "ld.global.u8 %d, [%i+3];", "ll--", a >> 24 & 255)                   \
	X(ld_s8_64, "ld.global.s8 %d, [%i];", "ll--", sx(a, 8))                          \
	X(ld_u16_32, "ld.global.u16 %d, [%i+2];", "il--", a >> 16 & 0xffff)              \
	X(ld_s16_32, "ld.global.s16 %d, [%i];", "il--", sx(a, 16))                       \
	X(ld_s16_64, "ld.global.s16 %d, [%i+6];", "ll--", sx(a >> 48, 16))               \
	X(ld_u32_64, "ld.global.u32 %d, [%i+4];", "ll--", a >> 32)                       \
	X(ld_s32_64, "ld.global.s32 %d, [%i];", "ll--", sx(a, 32))                       \
	X(ld_f32, "ld.global.f32 %d, [%i];", "il--", a)                                  \
	X(ld_nc, "ld.global.nc.u64 %d, [%i+8];", "lll-", b)                              \
	X(ld_generic, "ld.u64 %d, [%i];", "ll--", a)                                     \
	X(ld_vol, "ld.volatile.global.u32 %d, [%i];", "ii--", a)                         \
	X(ld_acq, "ld.acquire.gpu.global.u32 %d, [%i];", "ii--", a)                      \
	X(ld_rlx, "ld.relaxed.sys.u64 %d, [%i];", "ll--", a)                             \
	X(ld_v2, "ld.global.v2.u32 {%r1, %d}, [%i];", "il--", a >> 32)                   \
	X(ld_v4, "ld.global.v4.u32 {%r1, %r2, %r3, %d}, [%i];", "ill-", b >> 32)         \
	X(ld_v4_8, "ld.global.v4.u8 {%h1, %h2, %d, %h3}, [%i+4];", "wl--",               \
	  a >> 48 & 255)                                                                 \
	X(ld_v2_s16, "{ .reg .s32 %x<2>; ld.global.v2.s16 {%x0, %d}, [%i]; }", "il--",   \
	  sx(a >> 16, 16))                                                               \
	X(ld_v2_64, "ld.global.v2.u64 {%l1, %d}, [%i];", "lll-", b)                      \
	X(ld_128, "{ .reg .b128 %z; ld.global.b128 %z, [%i]; mov.b128 {%l1, %d}, %z; }", \
	  "lll-", b)                                                                     \
	X(st_u8, "st.global.u8 [%i+5], %a; ld.global.u64 %d, [%i];", "lw--",             \
	  (a & 0xff) << 40 | a)                                                          \
	X(st_u8_64, "st.global.u8 [%i+8], %a; ld.global.u64 %d, [%i+8];", "lll-",        \
	  (b & ~0xffull) | (a & 255))                                                    \
	X(st_u16, "st.global.b16 [%i+10], %a; ld.global.u64 %d, [%i+8];", "lil-",        \
	  (b & ~0xffff0000ull) | (a & 0xffff) << 16)                                     \
	X(st_v2, "st.global.v2.u32 [%i+8], {%a, %c}; ld.global.u64 %d, [%i+8];", "liii", \
	  c << 32 | a)                                                                   \
	X(st_v4, "st.global.v4.b16 [%i+8], {%a, %c, %a, 7}; ld.u64 %d, [%i+8];", "lwww", \
	  7ull << 48 | a << 32 | c << 16 | a)                                            \
	X(st_rel, "st.release.gpu.global.u32 [%i+8], %a; ld.global.u32 %d, [%i+8];",     \
	  "iii-", a)                                                                     \
	X(st_imm, "st.global.u32 [%i+8], -5; ld.global.u32 %d, [%i+8];", "iii-", -5)     \
	X(shared32,                                                                      \
	  "{ .shared .b32 sh[256]; mov.u32 %r1, %tid.x; shl.b32 %r1, %r1, 2;"            \
	  "mov.u32 %r2, sh; add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %a;"             \
	  "ld.shared.u32 %d, [%r1]; }",                                                  \
	  "ii--", a)                                                                     \
	X(shared8,                                                                       \
	  "{ .shared .b8 sh[256]; mov.u32 %r1, %tid.x; mov.u32 %r2, sh;"                 \
	  "add.u32 %r1, %r1, %r2; st.shared.u8 [%r1], %a;"                               \
	  "ld.shared.s8 %d, [%r1]; }",                                                   \
	  "ii--", sx(a, 8))                                                              \
	X(shared64,                                                                      \
	  "{ .shared .b64 sh[256]; mov.u32 %r1, %tid.x; mul.wide.u32 %l1, %r1, 8;"       \
	  "mov.u64 %l2, sh; add.u64 %l1, %l1, %l2; st.shared.u64 [%l1], %a;"             \
	  "cvta.shared.u64 %l1, %l1; ld.u64 %d, [%l1]; }",                               \
	  "ll--", a)                                                                     \
	X(sharedv,                                                                       \
	  "{ .shared .align 16 .b32 sh[1024]; mov.u32 %r1, %tid.x; shl.b32 %r1, %r1, 4;" \
	  "mov.u32 %r2, sh; add.u32 %r1, %r1, %r2;"                                      \
	  "st.shared.v4.u32 [%r1], {%a, %b, %c, 9}; ld.shared.v2.u64 {%l1, %l2}, [%r1];" \
	  "cvt.u32.u64 %d, %l2; }",                                                      \
	  "iiii", c)                                                                     \
	X(local32,                                                                       \
	  "{ .local .b32 lo[8]; and.b32 %r1, %b, 7; mul.wide.u32 %l1, %r1, 4;"           \
	  "mov.u64 %l2, lo; add.u64 %l1, %l1, %l2; st.local.u32 [%l1], %a;"              \
	  "cvta.local.u64 %l1, %l1; ld.u32 %d, [%l1]; }",                                \
	  "iii-", a)                                                                     \
	X(local_direct,                                                                  \
	  "{ .local .align 8 .b8 lo[16]; st.local.u64 [lo+8], %a;"                       \
	  "ld.local.u32 %d, [lo+12]; }",                                                 \
	  "il--", a >> 32)                                                               \
	X(isspace,                                                                       \
	  "isspacep.global %p, %i; selp.u32 %r1, 1, 0, %p; isspacep.shared %p, %i;"      \
	  "selp.u32 %r2, 2, 0, %p; add.u32 %d, %r1, %r2;",                               \
	  "i---", 1)                                                                     \
	X(const_, "{ .const .b32 k[2] = {77, 88}; ld.const.u32 %d, [k+4]; }", "i---",    \
	  88)                                                                            \
	X(cpasync,                                                                       \
	  "{ .shared .align 16 .b8 sh[4096]; mov.u32 %r1, %tid.x; shl.b32 %r1, %r1, 4;"  \
	  "mov.u32 %r2, sh; add.u32 %r1, %r1, %r2;"                                      \
	  "cp.async.ca.shared.global [%r1], [%i], 16, 12; cp.async.commit_group;"        \
	  "cp.async.wait_all; ld.shared.u64 %d, [%r1+8]; }",                             \
	  "lll-", (u32)b)

/* Results in memory afterwards, and values that the instruction returned. */
#define NEW(insn, ty) insn " ld.global." ty " %d, [%i];"
#define ATOMICS(X)                                                                       \
	X(add_n, NEW("red.global.add.u32 [%i], %b;", "u32"), "iii-", a + b)              \
	X(add_o, "atom.global.add.u32 %d, [%i], %b;", "iii-", a)                         \
	X(add_s, NEW("atom.add.s32 %r1, [%i], %b;", "u32"), "iii-", a + b)               \
	X(add64, NEW("red.relaxed.gpu.global.add.u64 [%i], %b;", "u64"), "lll-", a + b)  \
	X(and_, NEW("atom.global.and.b32 %r1, [%i], %b;", "u32"), "iii-", a &b)          \
	X(or64, NEW("atom.global.or.b64 %l1, [%i], %b;", "u64"), "lll-", a | b)          \
	X(xor_, NEW("red.global.xor.b32 [%i], %b;", "u32"), "iii-", a ^ b)               \
	X(exch,                                                                          \
	  "atom.global.exch.b32 %r1, [%i], %b; ld.global.u32 %r2, [%i];"                 \
	  "xor.b32 %d, %r1, %r2;",                                                       \
	  "iii-", a ^ b)                                                                 \
	X(exch64, NEW("atom.exch.b64 %l1, [%i], %b;", "u64"), "lll-", b)                 \
	X(cas_hit, NEW("atom.global.cas.b32 %r1, [%i], %a, %b;", "u32"), "iii-", b)      \
	X(cas_miss, NEW("atom.global.cas.b32 %r1, [%i], %b, %c;", "u32"), "iiii",        \
	  a == b ? c : a)                                                                \
	X(cas64, NEW("atom.cas.b64 %l1, [%i], %a, %c;", "u64"), "llll", c)               \
	X(cas16, NEW("atom.global.cas.b16 %h1, [%i], %a, %c;", "u16"), "wwww", c)        \
	X(cas128,                                                                        \
	  "{ .reg .b128 %x, %y, %z; mov.b128 %x, {%a, %b}; mov.b128 %y, {%c, %a};"       \
	  "atom.global.cas.b128 %z, [%i], %x, %y; ld.global.u64 %d, [%i]; }",            \
	  "llll", c)                                                                     \
	X(exch128,                                                                       \
	  "{ .reg .b128 %x, %z; mov.b128 %x, {%c, %a}; atom.global.exch.b128 %z, [%i], " \
	  "%x;"                                                                          \
	  "mov.b128 {%l1, %d}, %z; }",                                                   \
	  "llll", b)                                                                     \
	X(min_u, NEW("red.global.min.u32 [%i], %b;", "u32"), "iii-", MIN(a, b))          \
	X(max_s, NEW("red.global.max.s32 [%i], %b;", "u32"), "iii-",                     \
	  MAX((s32)a, (s32)b))                                                           \
	X(min_s64, NEW("atom.global.min.s64 %l1, [%i], %b;", "u64"), "lll-",             \
	  MIN((s64)a, (s64)b))                                                           \
	X(max_u64, NEW("atom.global.max.u64 %l1, [%i], %b;", "u64"), "lll-", MAX(a, b))  \
	X(inc, NEW("atom.global.inc.u32 %r1, [%i], %b;", "u32"), "iii-",                 \
	  a >= b ? 0 : a + 1)                                                            \
	X(dec, NEW("atom.global.dec.u32 %r1, [%i], %b;", "u32"), "iii-",                 \
	  a == 0 || a > b ? b : a - 1)                                                   \
	X(addf, NEW("red.global.add.f32 [%i], %b;", "u32"), "fff-",                      \
	  flush(to_f32(add_q(F(flush(a)), F(flush(b))), RN)))                            \
	X(addd, NEW("atom.global.add.f64 %l1, [%i], %b;", "u64"), "ddd-",                \
	  to_f64(add_q(D(a), D(b)), RN))                                                 \
	X(addh, NEW("atom.global.add.noftz.f16 %h1, [%i], %b;", "u16"), "hhh-",          \
	  to_f16(add_q(H(a), H(b)), RN))                                                 \
	X(addh2, NEW("red.global.add.noftz.f16x2 [%i], %b;", "u32"), "HHH-",             \
	  to_f16(add_q(H(a), H(b)), RN) | to_f16(add_q(H(a >> 16), H(b >> 16)), RN)      \
						  << 16)                                 \
	X(addb, NEW("atom.global.add.noftz.bf16 %h1, [%i], %b;", "u16"), "bbb-",         \
	  to_bf16(add_q(B(a), B(b)), RN))                                                \
	X(minh, NEW("red.global.v2.f16.min.noftz [%i], {%b, %b};", "u16"), "hhh-",       \
	  to_f16(lesser(H(a), H(b)), RN))                                                \
	X(maxb2, NEW("red.global.v2.bf16x2.max.noftz [%i], {%b, %b};", "u32"), "BBB-",   \
	  to_bf16(greater(B(a), B(b)), RN) |                                             \
		  to_bf16(greater(B(a >> 16), B(b >> 16)), RN) << 16)                    \
	X(addv2,                                                                         \
	  "atom.global.v2.f32.add {%f1, %f2}, [%i], {%b, %c}; ld.global.f32 %d, [%i];",  \
	  "ffff", flush(to_f32(add_q(F(flush(a)), F(flush(b))), RN)))                    \
	X(shared,                                                                        \
	  "{ .shared .b32 sh[256]; mov.u32 %r1, %tid.x; shl.b32 %r1, %r1, 2;"            \
	  "mov.u32 %r2, sh; add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %a;"             \
	  "atom.shared.add.u32 %r3, [%r1], %b; ld.shared.u32 %d, [%r1]; }",              \
	  "iii-", a + b)

PTX_TEST(mem_types, LOADS)
PTX_TEST(mem_atomics, ATOMICS)
