/* SPDX-License-Identifier: Apache-2.0 */
#include "base/macros.h"
#include "ptx/ptx_isa.h"

static const char *const op_names[] = {
#define X(id, name) [PTX_##id] = name,
	PTX_OPS(X)
#undef X
};
static_assert(ARRAY_SIZE(op_names) == PTX_NUM_OPS, "every opcode has a name");

static const struct {
	const char *name;
	unsigned bits;
} types[] = {
#define X(id, name, bits) [PTX_T_##id] = {name, bits},
	PTX_TYPES(X)
#undef X
};
static_assert(ARRAY_SIZE(types) == PTX_NUM_TYPES, "every type has a name");

static const unsigned char sreg_types[] = {
#define X(id, name, type) [PTX_SR_##id] = PTX_T_##type,
	PTX_SREGS(X)
#undef X
};

static const unsigned short shapes[][3] = {
#define X(id, m, n, k) [PTX_SHAPE_##id] = {m, n, k},
	PTX_SHAPES(X)
#undef X
};

const char *ptx_op_name(enum ptx_op op)
{
	return op_names[op];
}

const char *ptx_type_name(enum ptx_type type)
{
	return types[type].name;
}

unsigned ptx_type_bits(enum ptx_type type)
{
	return types[type].bits;
}

enum ptx_type ptx_sreg_type(enum ptx_sreg sreg)
{
	return sreg_types[sreg];
}

void ptx_shape_dims(enum ptx_shape shape, unsigned *ret_m, unsigned *ret_n,
		    unsigned *ret_k)
{
	*ret_m = shapes[shape][0];
	*ret_n = shapes[shape][1];
	*ret_k = shapes[shape][2];
}
