/* SPDX-License-Identifier: Apache-2.0 */
/* The words that may follow an opcode, and the names of what is refused. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ptx/ptx_form.h"

#define FLAG(w, c)                                                                       \
	{                                                                                \
		w, PTX_M_##c, PTX_F_##c                                                  \
	}
#define MOD(w, c, v)                                                                     \
	{                                                                                \
		w, PTX_M_##c, v                                                          \
	}
#define IGNORED(w)                                                                       \
	{                                                                                \
		w, PTX_M_IGNORE, 0                                                       \
	}
#define WORD(w)                                                                          \
	{                                                                                \
		w, PTX_M_WORD, 0                                                         \
	}
#define SHAPE(w, name)                                                                   \
	{                                                                                \
		w, PTX_M_SHAPE, PTX_SHAPE_##name                                         \
	}

/* Entries of the same word stand together. */
const struct ptx_mod ptx_mods[] = {
	FLAG(".sat", SAT),
	FLAG(".ftz", FTZ),
	FLAG(".approx", APPROX),
	FLAG(".full", FULL),
	FLAG(".cc", CC),
	FLAG(".NaN", NAN),
	FLAG(".xorsign", XORSIGN),
	FLAG(".abs", ABS),
	FLAG(".relu", RELU),
	FLAG(".satfinite", SATFINITE),
	FLAG(".shiftamt", SHIFTAMT),
	FLAG(".uni", UNI),
	MOD(".uni", VOTE, PTX_VOTE_UNI),
	FLAG(".to", TO),
	FLAG(".nc", NC),
	FLAG(".aligned", ALIGNED),
	FLAG(".trans", TRANS),
	FLAG(".noinc", NOINC),
	FLAG(".noComplete", NOCOMPLETE),
	FLAG(".expect_tx", EXPECT_TX),
	FLAG(".parity", PARITY),
	FLAG(".read", READ),
	FLAG(".multicast::cluster", MULTICAST),
	FLAG(".po", PO),
	FLAG(".oob", OOB),
	FLAG(".noftz", NOFTZ),
	FLAG(".L2::cache_hint", HINT),
	FLAG(".sync", SYNC),
	MOD(".sync", BAR, PTX_BAR_SYNC),

	MOD(".rn", RND, PTX_R_RN),
	MOD(".rn", RN, PTX_R_RN),
	MOD(".rz", RND, PTX_R_RZ),
	MOD(".rm", RND, PTX_R_RM),
	MOD(".rp", RND, PTX_R_RP),
	MOD(".rni", RNI, PTX_R_RNI),
	MOD(".rzi", RNI, PTX_R_RZI),
	MOD(".rmi", RNI, PTX_R_RMI),
	MOD(".rpi", RNI, PTX_R_RPI),
	MOD(".rna", RNA, PTX_R_RNA),

	MOD(".lo", HL, PTX_MUL_LO),
	MOD(".lo", CMPU, PTX_C_LO),
	MOD(".hi", HL, PTX_MUL_HI),
	MOD(".hi", CMPU, PTX_C_HI),
	MOD(".wide", WIDE, PTX_MUL_WIDE),
	MOD(".eq", CMPI, PTX_C_EQ),
	MOD(".ne", CMPI, PTX_C_NE),
	MOD(".lt", CMPI, PTX_C_LT),
	MOD(".le", CMPI, PTX_C_LE),
	MOD(".gt", CMPI, PTX_C_GT),
	MOD(".ge", CMPI, PTX_C_GE),
	MOD(".ls", CMPU, PTX_C_LS),
	MOD(".hs", CMPU, PTX_C_HS),
	MOD(".equ", CMPF, PTX_C_EQU),
	MOD(".neu", CMPF, PTX_C_NEU),
	MOD(".ltu", CMPF, PTX_C_LTU),
	MOD(".leu", CMPF, PTX_C_LEU),
	MOD(".gtu", CMPF, PTX_C_GTU),
	MOD(".geu", CMPF, PTX_C_GEU),
	MOD(".num", CMPF, PTX_C_NUM),
	MOD(".nan", CMPF, PTX_C_NAN),
	MOD(".and", BOOL, PTX_B_AND),
	MOD(".and", ATOM, PTX_ATOM_AND),
	MOD(".and", BARRED, PTX_BAR_RED_AND),
	MOD(".and", MMAOP, PTX_MMA_AND_POPC),
	MOD(".or", BOOL, PTX_B_OR),
	MOD(".or", ATOM, PTX_ATOM_OR),
	MOD(".or", BARRED, PTX_BAR_RED_OR),
	MOD(".xor", BOOL, PTX_B_XOR),
	MOD(".xor", ATOM, PTX_ATOM_XOR),
	MOD(".xor", MMAOP, PTX_MMA_XOR_POPC),
	MOD(".exch", ATOM, PTX_ATOM_EXCH),
	MOD(".cas", ATOM, PTX_ATOM_CAS),
	MOD(".add", ATOM, PTX_ATOM_ADD),
	MOD(".inc", ATOM, PTX_ATOM_INC),
	WORD(".inc"),
	MOD(".dec", ATOM, PTX_ATOM_DEC),
	WORD(".dec"),
	MOD(".min", ATOM, PTX_ATOM_MIN),
	MOD(".max", ATOM, PTX_ATOM_MAX),
	MOD(".popc", BARRED, PTX_BAR_RED_POPC),
	WORD(".popc"),

	MOD(".global", SPACE, PTX_S_GLOBAL),
	MOD(".global", SPACE2, PTX_S_GLOBAL),
	MOD(".shared", SPACE, PTX_S_SHARED),
	MOD(".shared", SPACE2, PTX_S_SHARED),
	MOD(".shared::cta", SPACE, PTX_S_SHARED),
	MOD(".shared::cta", SPACE2, PTX_S_SHARED),
	MOD(".shared::cluster", SPACE, PTX_S_SHARED_CLUSTER),
	MOD(".shared::cluster", SPACE2, PTX_S_SHARED_CLUSTER),
	MOD(".local", SPACE, PTX_S_LOCAL),
	MOD(".const", SPACE, PTX_S_CONST),
	MOD(".param", SPACE, PTX_S_PARAM),
	MOD(".param::entry", SPACE, PTX_S_PARAM),
	MOD(".param::func", SPACE, PTX_S_PARAM),
	MOD(".weak", SEM, PTX_SEM_WEAK),
	MOD(".volatile", SEM, PTX_SEM_VOLATILE),
	MOD(".relaxed", SEM, PTX_SEM_RELAXED),
	MOD(".acquire", SEM, PTX_SEM_ACQUIRE),
	MOD(".release", SEM, PTX_SEM_RELEASE),
	MOD(".acq_rel", SEM, PTX_SEM_ACQ_REL),
	MOD(".sc", SEM, PTX_SEM_SC),
	IGNORED(".mmio"),
	MOD(".cta", SCOPE, PTX_SCOPE_CTA),
	MOD(".cluster", SCOPE, PTX_SCOPE_CLUSTER),
	MOD(".gpu", SCOPE, PTX_SCOPE_GPU),
	MOD(".sys", SCOPE, PTX_SCOPE_SYS),
	MOD(".gl", LEVEL, PTX_SCOPE_GPU),

	IGNORED(".ca"),
	IGNORED(".cg"),
	IGNORED(".cs"),
	IGNORED(".lu"),
	IGNORED(".cv"),
	IGNORED(".wb"),
	IGNORED(".wt"),
	IGNORED(".L1"),
	IGNORED(".L2"),
	IGNORED(".tensormap"),
	IGNORED(".L1::evict_normal"),
	IGNORED(".L1::evict_unchanged"),
	IGNORED(".L1::evict_first"),
	IGNORED(".L1::evict_last"),
	IGNORED(".L1::no_allocate"),
	IGNORED(".L2::evict_normal"),
	IGNORED(".L2::evict_unchanged"),
	IGNORED(".L2::evict_first"),
	IGNORED(".L2::evict_last"),
	IGNORED(".L2::64B"),
	IGNORED(".L2::128B"),
	IGNORED(".L2::256B"),
	IGNORED(".fractional"),
	IGNORED(".range"),
	IGNORED(".cvt"),

	MOD(".v2", VEC, 2),
	MOD(".v4", VEC, 4),
	MOD(".v8", VEC, 8),
	MOD(".x1", NUM, 1),
	MOD(".x2", NUM, 2),
	MOD(".x4", NUM, 4),
	MOD(".clamp", CW, 0),
	MOD(".wrap", CW, 1),
	MOD(".zero", CW, PTX_BOUND_ZERO),
	MOD(".trap", CW, PTX_BOUND_TRAP),
	MOD(".1d", GEOM, PTX_G_1D),
	MOD(".2d", GEOM, PTX_G_2D),
	MOD(".3d", GEOM, PTX_G_3D),
	MOD(".a1d", GEOM, PTX_G_A1D),
	MOD(".a2d", GEOM, PTX_G_A2D),
	MOD(".cube", GEOM, PTX_G_CUBE),
	MOD(".acube", GEOM, PTX_G_ACUBE),
	MOD(".l", LR, 0),
	MOD(".r", LR, 2),
	MOD(".f4e", PRMT, PTX_PRMT_F4E),
	MOD(".b4e", PRMT, PTX_PRMT_B4E),
	MOD(".rc8", PRMT, PTX_PRMT_RC8),
	MOD(".ecl", PRMT, PTX_PRMT_ECL),
	MOD(".ecr", PRMT, PTX_PRMT_ECR),
	MOD(".rc16", PRMT, PTX_PRMT_RC16),
	MOD(".finite", TESTP, PTX_TESTP_FINITE),
	MOD(".infinite", TESTP, PTX_TESTP_INFINITE),
	MOD(".number", TESTP, PTX_TESTP_NUMBER),
	MOD(".notanumber", TESTP, PTX_TESTP_NAN),
	MOD(".normal", TESTP, PTX_TESTP_NORMAL),
	MOD(".subnormal", TESTP, PTX_TESTP_SUBNORMAL),
	MOD(".up", SHFL, PTX_SHFL_UP),
	MOD(".down", SHFL, PTX_SHFL_DOWN),
	MOD(".bfly", SHFL, PTX_SHFL_BFLY),
	MOD(".idx", SHFL, PTX_SHFL_IDX),
	MOD(".all", VOTE, PTX_VOTE_ALL),
	MOD(".all", ANYALL, 1),
	MOD(".any", VOTE, PTX_VOTE_ANY),
	MOD(".any", ANYALL, 0),
	MOD(".ballot", VOTE, PTX_VOTE_BALLOT),
	MOD(".arrive", BAR, PTX_BAR_ARRIVE),
	MOD(".arrive", WAIT, 0),
	MOD(".red", BAR, PTX_BAR_RED_POPC),
	MOD(".wait", WAIT, 1),
	MOD(".launch_dependents", WAIT, 0),
	MOD(".row", LAYOUT, PTX_L_ROW),
	MOD(".col", LAYOUT, PTX_L_COL),
	MOD(".a", FRAG, PTX_FRAG_A),
	MOD(".b", FRAG, PTX_FRAG_B),
	MOD(".c", FRAG, PTX_FRAG_C),
	MOD(".d", FRAG, PTX_FRAG_D),
	MOD(".bulk_group", BULK, 0),
	MOD(".mbarrier::complete_tx::bytes", BULK, 1),
	MOD(".shr7", SHR, 7),
	MOD(".shr15", SHR, 15),

	SHAPE(".m16n16k16", M16N16K16),
	SHAPE(".m8n32k16", M8N32K16),
	SHAPE(".m32n8k16", M32N8K16),
	SHAPE(".m8n8k4", M8N8K4),
	SHAPE(".m8n8k16", M8N8K16),
	SHAPE(".m8n8k32", M8N8K32),
	SHAPE(".m8n8k128", M8N8K128),
	SHAPE(".m16n16k8", M16N16K8),
	SHAPE(".m16n8k4", M16N8K4),
	SHAPE(".m16n8k8", M16N8K8),
	SHAPE(".m16n8k16", M16N8K16),
	SHAPE(".m16n8k32", M16N8K32),
	SHAPE(".m16n8k64", M16N8K64),
	SHAPE(".m16n8k128", M16N8K128),
	SHAPE(".m16n8k256", M16N8K256),
	SHAPE(".m8n8", M8N8),
	SHAPE(".m8n16", M8N16),
	SHAPE(".m16n8", M16N8),
	SHAPE(".m16n16", M16N16),

	/* of proxy fences and others that need nothing done here */
	WORD(".alias"),
	WORD(".async"),
	WORD(".async::generic"),
	WORD(".tensormap::generic"),
	WORD(".sync_restrict::shared::cta"),
	WORD(".sync_restrict::shared::cluster"),
	WORD(".mask"),
	WORD(".proxy"),
};
const size_t ptx_num_mods = ARRAY_SIZE(ptx_mods);

/* Names that stand for an operation under another one. */
static const struct {
	const char *name;
	enum ptx_op op;
} aliases[] = {
	{"barrier", PTX_BAR},
	{"membar.proxy", PTX_FENCE_PROXY},
	/* sub comes from the name: ptx_insn.c */
	{"tld4.r", PTX_TLD4},
	{"tld4.g", PTX_TLD4},
	{"tld4.b", PTX_TLD4},
	{"tld4.a", PTX_TLD4},
	{"txq.width", PTX_TXQ},
	{"txq.height", PTX_TXQ},
	{"txq.depth", PTX_TXQ},
	{"suq.width", PTX_SUQ},
	{"suq.height", PTX_SUQ},
	{"suq.depth", PTX_SUQ},
};

static const char *const refused[] = {
	"tex.base",
	"istypep",
	"sust.p",
	"sured.b",
	"sured.p",
	"wgmma.fence",
	"wgmma.mma_async",
	"wgmma.commit_group",
	"wgmma.wait_group",
	"tcgen05",
	"tensormap.replace",
	"tensormap.cp_fenceproxy",
	"multimem.ld_reduce",
	"multimem.st",
	"multimem.red",
	"st.async",
	"st.bulk",
	"red.async",
	"cp.async.bulk.tensor",
	"cp.reduce.async.bulk.tensor",
	"cp.async.bulk.prefetch.tensor",
	"clusterlaunchcontrol.try_cancel",
	"clusterlaunchcontrol.query_cancel",
	"mma.sp",
	"mma.sp::ordered_metadata",
	"vadd2",
	"vsub2",
	"vavrg2",
	"vabsdiff2",
	"vmin2",
	"vmax2",
	"vset2",
	"vadd4",
	"vsub4",
	"vavrg4",
	"vmin4",
	"vmax4",
	"vset4",
};

static const char *const dir_names[] = {
#define X(id) [PTX_D_##id] = "." #id,
	PTX_DIRS(X)
#undef X
};

static const char *const sreg_names[] = {
#define X(id, name, type) [PTX_SR_##id] = name,
	PTX_SREGS(X)
#undef X
};

static struct ptx_sym *word(struct ptx_lex *lx, const char *s)
{
	return ptx_intern(lx, s, strlen(s));
}

/* "cp.async.bulk": its beginnings "cp" and "cp.async" go on over the dot. */
static int mark_prefixes(struct ptx_lex *lx, const char *name)
{
	for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
		struct ptx_sym *s = ptx_intern(lx, name, dot - name);

		if (!s)
			return -ENOMEM;
		s->joins = true;
	}
	return 0;
}

static int learn_ops(struct ptx_lex *lx)
{
	for (size_t i = 0; i < ptx_num_forms; i++) {
		struct ptx_sym *s;

		if (i && ptx_forms[i].op == ptx_forms[i - 1].op)
			continue;
		s = word(lx, ptx_op_name(ptx_forms[i].op));
		if (!s || mark_prefixes(lx, s->s) < 0)
			return -ENOMEM;
		s->op = i + 1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++) {
		const char *real = ptx_op_name(aliases[i].op);
		struct ptx_sym *s = word(lx, aliases[i].name);

		if (!s || mark_prefixes(lx, s->s) < 0)
			return -ENOMEM;
		s->op = ptx_lookup(lx, real, strlen(real))->op;
	}
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct ptx_sym *s = word(lx, refused[i]);

		if (!s || mark_prefixes(lx, s->s) < 0)
			return -ENOMEM;
		s->refused = true;
	}
	return 0;
}

/* "%pm0" and "%envreg7": one name for each number. */
static int learn_numbered(struct ptx_lex *lx, const char *fmt, unsigned n,
			  enum ptx_sreg sreg)
{
	for (unsigned i = 0; i < n; i++) {
		char buf[32], *s;
		int len = snprintf(buf, sizeof(buf), fmt, i);
		struct ptx_sym *sym;

		s = ptx_strndup(lx->arena, buf, len);
		sym = s ? word(lx, s) : NULL;
		if (!sym)
			return -ENOMEM;
		if (!sym->sreg) /* %envreg1 and 2 have entries of their own */
			sym->sreg = sreg + 1;
	}
	return 0;
}

int ptx_vocabulary(struct ptx_lex *lx)
{
	if (learn_ops(lx) < 0)
		return -ENOMEM;
	for (size_t i = ptx_num_mods; i-- > 0;) {
		struct ptx_sym *s = word(lx, ptx_mods[i].word);

		if (!s)
			return -ENOMEM;
		s->mod = i + 1;
	}
	for (size_t i = PTX_T_NONE + 1; i < PTX_NUM_TYPES; i++) {
		const char *name = ptx_type_name(i);
		char *s = ptx_alloc(lx->arena, strlen(name) + 2);
		struct ptx_sym *sym;

		if (!s)
			return -ENOMEM;
		s[0] = '.';
		memcpy(s + 1, name, strlen(name));
		sym = word(lx, s);
		if (!sym)
			return -ENOMEM;
		sym->type = i;
	}
	for (size_t i = 1; i < ARRAY_SIZE(dir_names); i++) {
		struct ptx_sym *s = word(lx, dir_names[i]);

		if (!s)
			return -ENOMEM;
		s->dir = i;
	}
	for (size_t i = 0; i < ARRAY_SIZE(sreg_names); i++) {
		struct ptx_sym *s = word(lx, sreg_names[i]);
		const char *dot = strchr(sreg_names[i], '.');

		if (!s)
			return -ENOMEM;
		s->sreg = i + 1;
		if (!dot)
			continue;
		s = ptx_intern(lx, sreg_names[i], dot - sreg_names[i]);
		if (!s)
			return -ENOMEM;
		s->joins = true;
	}
	if (learn_numbered(lx, "%%pm%u", 8, PTX_SR_PM) < 0 ||
	    learn_numbered(lx, "%%pm%u_64", 8, PTX_SR_PM64) < 0)
		return -ENOMEM;
	return learn_numbered(lx, "%%envreg%u", 32, PTX_SR_ENVREG);
}
