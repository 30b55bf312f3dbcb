/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the device tests, as PTX. */
#ifndef WEFT_TEST_DEVICE_PTX_H
#define WEFT_TEST_DEVICE_PTX_H

#define PTX_HEAD ".version 8.0\n.target sm_75\n.address_size 64\n"

/* number(p, base): p[i] = base + i for each thread i of the grid. */
#define PTX_NUMBER                                                                       \
	".visible .entry number(.param .u64 p, .param .u32 base) {\n"                    \
	" .reg .b32 %r<6>; .reg .b64 %rd<4>;\n"                                          \
	" ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [base];\n"                           \
	" mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"           \
	" mad.lo.s32 %r2, %r2, %r3, %r4; add.s32 %r5, %r2, %r1;\n"                       \
	" mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2;\n"                        \
	" st.global.u32 [%rd3], %r5; ret; }\n"

/* add(p, v): *p += v, atomically, by each thread. */
#define PTX_ADD                                                                          \
	".visible .entry add(.param .u64 p, .param .u32 v) {\n"                          \
	" .reg .b32 %r<3>; .reg .b64 %rd<2>;\n"                                          \
	" ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [v];\n"                              \
	" atom.global.add.u32 %r2, [%rd1], %r1; ret; }\n"

/* spin(p): until *p is not 0. */
#define PTX_SPIN                                                                         \
	".visible .entry spin(.param .u64 p) {\n"                                        \
	" .reg .b32 %r<2>; .reg .b64 %rd<2>; .reg .pred %p<2>;\n"                        \
	" ld.param.u64 %rd1, [p];\n"                                                     \
	"again: ld.volatile.global.u32 %r1, [%rd1];\n"                                   \
	" setp.eq.u32 %p1, %r1, 0; @%p1 bra again; ret; }\n"

/* empty(): nothing. */
#define PTX_EMPTY ".visible .entry empty() { ret; }\n"

/* smid(p): p[block] = SM number. */
#define PTX_SMID                                                                         \
	".visible .entry smid(.param .u64 p) {\n"                                        \
	" .reg .b32 %r<3>; .reg .b64 %rd<4>;\n"                                          \
	" ld.param.u64 %rd1, [p]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %smid;\n"          \
	" mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;\n"                        \
	" st.global.u32 [%rd3], %r2; ret; }\n"

/* meet(p): adds 1 to *p once a block and waits until all blocks have. */
#define PTX_MEET                                                                         \
	".visible .entry meet(.param .u64 p) {\n"                                        \
	" .reg .b32 %r<6>; .reg .b64 %rd<2>; .reg .pred %p<3>;\n"                        \
	" ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x;\n"                                \
	" setp.ne.u32 %p1, %r1, 0; @%p1 bra sync;\n"                                     \
	" atom.global.add.u32 %r2, [%rd1], 1; mov.u32 %r3, %nctaid.x;\n"                 \
	"again: ld.volatile.global.u32 %r4, [%rd1];\n"                                   \
	" setp.lt.u32 %p2, %r4, %r3; @%p2 bra again;\n"                                  \
	"sync: bar.sync 0; ret; }\n"

/* rounds(p, n): n times round, each block waits for its number at p, then adds one. */
#define PTX_ROUNDS                                                                       \
	".visible .entry rounds(.param .u64 p, .param .u32 n) {\n"                       \
	" .reg .b32 %r<8>; .reg .b64 %rd<2>; .reg .pred %p<4>;\n"                        \
	" ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;\n"         \
	" mov.u32 %r3, %ctaid.x; mov.u32 %r4, %nctaid.x;\n"                              \
	" setp.ne.u32 %p1, %r2, 0;\n"                                                    \
	"round: add.u32 %r5, %r3, 1; @%p1 bra sync;\n"                                   \
	"again: atom.global.cas.b32 %r6, [%rd1], %r3, %r5;\n"                            \
	" setp.ne.u32 %p2, %r6, %r3; @%p2 bra again;\n"                                  \
	"sync: bar.sync 0; add.u32 %r3, %r3, %r4; add.u32 %r1, %r1, -1; bar.sync 0;\n"   \
	" setp.ne.u32 %p3, %r1, 0; @%p3 bra round; ret; }\n"

/* dynamic(p): p[i] = value that thread n-1-i put into dynamic shared memory. */
#define PTX_DYNAMIC                                                                      \
	".extern .shared .align 16 .b8 dyn[];\n"                                         \
	".visible .entry dynamic(.param .u64 p) {\n"                                     \
	" .reg .b32 %r<10>; .reg .b64 %rd<5>;\n"                                         \
	" ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x;\n"          \
	" mov.u32 %r3, dyn; shl.b32 %r4, %r1, 2; add.s32 %r5, %r3, %r4;\n"               \
	" mul.lo.s32 %r6, %r1, 3; st.shared.u32 [%r5], %r6; bar.sync 0;\n"               \
	" sub.s32 %r7, %r2, %r1; sub.s32 %r7, %r7, 1; shl.b32 %r7, %r7, 2;\n"            \
	" add.s32 %r8, %r3, %r7; ld.shared.u32 %r9, [%r8];\n"                            \
	" mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;\n"                        \
	" st.global.u32 [%rd3], %r9; ret; }\n"

/* poke(p): *(u32 *)p = 1, as a generic address. */
#define PTX_POKE                                                                         \
	".visible .entry poke(.param .u64 p) {\n"                                        \
	" .reg .b64 %rd<2>; ld.param.u64 %rd1, [p]; st.u32 [%rd1], 1; ret; }\n"

/* step(p, v): *p = *p * factor + v, by one thread. */
#define PTX_STEP(factor)                                                                 \
	".visible .entry step(.param .u64 p, .param .u32 v) {\n"                         \
	" .reg .b32 %r<3>; .reg .b64 %rd<2>;\n"                                          \
	" ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [v];\n"                              \
	" ld.global.u32 %r2, [%rd1]; mad.lo.u32 %r2, %r2, " factor ", %r1;\n"            \
	" st.global.u32 [%rd1], %r2; ret; }\n"

/* fall(): trap. */
#define PTX_TRAP ".visible .entry fall() { trap; }\n"

/* bump(p): *p += counter++ and limit, variables of the module. */
#define PTX_VARS                                                                         \
	".visible .global .align 4 .u32 counter = 40;\n"                                 \
	".visible .const .align 4 .u32 limit = 2;\n"                                     \
	".visible .global .align 8 .u64 pointer = counter;\n"                            \
	".global .align 4 .u32 hidden = 1;\n"                                            \
	".visible .entry bump(.param .u64 p) {\n"                                        \
	" .reg .b32 %r<5>; .reg .b64 %rd<3>;\n"                                          \
	" ld.param.u64 %rd1, [p]; ld.global.u64 %rd2, [pointer];\n"                      \
	" atom.add.u32 %r1, [%rd2], 1; ld.const.u32 %r2, [limit];\n"                     \
	" ld.global.u32 %r3, [%rd1]; add.s32 %r3, %r3, %r1; add.s32 %r3, %r3, %r2;\n"    \
	" st.global.u32 [%rd1], %r3; ret; }\n"

/* hello(v): printf("hello %d\n", v) by each thread. */
#define PTX_HELLO                                                                        \
	".extern .func (.param .b32 ret) vprintf(.param .b64 fmt, .param .b64 args);\n"  \
	".global .align 1 .b8 text[10] = {104, 101, 108, 108, 111, 32, 37, 100, 10};\n"  \
	".visible .entry hello(.param .u32 v) {\n"                                       \
	" .local .align 8 .b8 depot[8]; .reg .b64 %rd<5>; .reg .b32 %r<3>;\n"            \
	" ld.param.u32 %r1, [v]; mov.u64 %rd1, depot; st.local.u32 [%rd1], %r1;\n"       \
	" cvta.local.u64 %rd2, %rd1; mov.u64 %rd3, text; cvta.global.u64 %rd4, %rd3;\n"  \
	" { .param .b64 a; st.param.b64 [a], %rd4; .param .b64 b;\n"                     \
	" st.param.b64 [b], %rd2; .param .b32 r;\n"                                      \
	" call.uni (r), vprintf, (a, b); ld.param.b32 %r2, [r]; }\n"                     \
	" ret; }\n"

/* heap(p, n): p[i] = malloc(n) as the thread i of the grid; also writes to it. */
#define PTX_HEAP                                                                         \
	".extern .func (.param .b64 ret) malloc(.param .b64 size);\n"                    \
	".extern .func free(.param .b64 p);\n"                                           \
	".visible .entry heap(.param .u64 p, .param .u64 n) {\n"                         \
	" .reg .b64 %rd<7>; .reg .b32 %r<5>; .reg .pred %p<2>;\n"                        \
	" ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [n];\n"                             \
	" mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"           \
	" mad.lo.s32 %r4, %r1, %r2, %r3; mul.wide.u32 %rd3, %r4, 8;\n"                   \
	" add.s64 %rd4, %rd1, %rd3;\n"                                                   \
	" { .param .b64 a; st.param.b64 [a], %rd2; .param .b64 r;\n"                     \
	" call.uni (r), malloc, (a); ld.param.b64 %rd5, [r]; }\n"                        \
	" st.global.u64 [%rd4], %rd5; setp.eq.u64 %p1, %rd5, 0; @%p1 bra done;\n"        \
	" st.u32 [%rd5], %r4;\n"                                                         \
	"done: ret; }\n"                                                                 \
	".visible .entry unheap(.param .u64 p) {\n"                                      \
	" .reg .b64 %rd<7>; .reg .b32 %r<5>;\n"                                          \
	" ld.param.u64 %rd1, [p];\n"                                                     \
	" mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"           \
	" mad.lo.s32 %r4, %r1, %r2, %r3; mul.wide.u32 %rd3, %r4, 8;\n"                   \
	" add.s64 %rd4, %rd1, %rd3; ld.global.u64 %rd5, [%rd4];\n"                       \
	" { .param .b64 a; st.param.b64 [a], %rd5; call.uni free, (a); }\n"              \
	" ret; }\n"

/* check(v): fails the assertion "v == 1" in each thread unless v is 1. */
#define PTX_ASSERT                                                                       \
	".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c,\n"      \
	" .param .b64 d, .param .b64 e);\n"                                              \
	".global .align 1 .b8 cond[7] = {118, 32, 61, 61, 32, 49};\n"                    \
	".global .align 1 .b8 file[5] = {97, 46, 99, 117};\n"                            \
	".global .align 1 .b8 func[6] = {99, 104, 101, 99, 107};\n"                      \
	".visible .entry check(.param .u32 v) {\n"                                       \
	" .reg .b64 %rd<7>; .reg .b32 %r<2>; .reg .pred %p<2>;\n"                        \
	" ld.param.u32 %r1, [v]; setp.eq.u32 %p1, %r1, 1; @%p1 bra fine;\n"              \
	" mov.u64 %rd1, cond; cvta.global.u64 %rd2, %rd1;\n"                             \
	" mov.u64 %rd3, file; cvta.global.u64 %rd4, %rd3;\n"                             \
	" mov.u64 %rd5, func; cvta.global.u64 %rd6, %rd5;\n"                             \
	" { .param .b64 a; st.param.b64 [a], %rd2; .param .b64 b;\n"                     \
	" st.param.b64 [b], %rd4; .param .b32 c; st.param.b32 [c], 12;\n"                \
	" .param .b64 d; st.param.b64 [d], %rd6; .param .b64 e;\n"                       \
	" st.param.b64 [e], 1; call.uni __assertfail, (a, b, c, d, e); }\n"              \
	"fine: ret; }\n"

/* neighbour(p): p[block] = 100 + number of the next block of the cluster, by way of that
 * block's shared memory. Needs sm_90. */
#define PTX_CLUSTER                                                                      \
	".visible .entry neighbour(.param .u64 p) {\n"                                   \
	" .shared .align 4 .u32 box; .reg .b32 %r<12>; .reg .b64 %rd<4>;\n"              \
	" ld.param.u64 %rd1, [p]; mov.u32 %r1, %ctaid.x; add.s32 %r2, %r1, 100;\n"       \
	" mov.u32 %r3, box; st.shared.u32 [%r3], %r2;\n"                                 \
	" barrier.cluster.arrive; barrier.cluster.wait;\n"                               \
	" mov.u32 %r4, %cluster_ctarank; add.s32 %r4, %r4, 1;\n"                         \
	" mov.u32 %r5, %cluster_nctarank; rem.u32 %r6, %r4, %r5;\n"                      \
	" mapa.shared::cluster.u32 %r7, %r3, %r6;\n"                                     \
	" ld.shared::cluster.u32 %r8, [%r7];\n"                                          \
	" barrier.cluster.arrive; barrier.cluster.wait;\n"                               \
	" mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;\n"                        \
	" st.global.u32 [%rd3], %r8; ret; }\n"

/* loop(n): n rounds of arithmetic; long enough to be seen. */
#define PTX_LOOP                                                                         \
	".visible .entry loop(.param .u64 p, .param .u32 n) {\n"                         \
	" .reg .b32 %r<4>; .reg .b64 %rd<2>; .reg .pred %p<2>;\n"                        \
	" ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;\n"         \
	"again: mad.lo.s32 %r2, %r2, 1664525, 1013904223; sub.s32 %r1, %r1, 1;\n"        \
	" setp.ne.u32 %p1, %r1, 0; @%p1 bra again;\n"                                    \
	" st.global.u32 [%rd1], %r2; ret; }\n"

#endif
