/* SPDX-License-Identifier: Apache-2.0 */
/* The generated codec: what is filled decodes to the same; anything else is refused. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "codec.h"

static _Alignas(8) uint8_t body[WIRE_BODY_MAX + 8];

static struct lane_msg msg(uint16_t op, uint32_t size)
{
	struct lane_msg m = {.hdr = {.op = op}, .body = body, .body_size = size};

	return m;
}

/* A launch with `size` bytes of parameters 0, 1, 2, ... in body. */
static struct lane_msg launch(uint32_t size)
{
	struct launch_kernel_cmd *cmd = (void *)body;
	uint8_t *params = launch_kernel_cmd_params(cmd, 0);

	memset(body, 0xee, sizeof(body));
	launch_kernel_cmd_init(cmd, 0, size);
	cmd->func = 0x1111222233334444;
	cmd->stream = 1;
	cmd->after = 0;
	for (unsigned i = 0; i < 3; i++) {
		cmd->grid[i] = i + 1;
		cmd->block[i] = 32 * i;
		cmd->cluster[i] = 0;
	}
	cmd->shared_bytes = 48 << 10;
	cmd->flags = 1;
	for (uint32_t i = 0; i < size; i++)
		params[i] = (uint8_t)i;
	return msg(WIRE_OP_launch_kernel, launch_kernel_cmd_size(0, size));
}

Test(codec, round_trip_of_every_parameter_size)
{
	static const uint32_t sizes[] = {0, 1, 7, 8, 9, 255, 4096, 32763, 32764};

	for (unsigned n = 0; n < ARRAY_SIZE(sizes); n++) {
		struct launch_kernel_args args;
		struct lane_msg m = launch(sizes[n]);

		cr_assert_eq(m.body_size % 8, 0);
		cr_assert_eq(launch_kernel_decode(&m, &args), 0, "%u bytes", sizes[n]);
		cr_assert_eq(args.cmd->params_size, sizes[n]);
		cr_assert_eq(args.cmd->grid[2], 3);
		for (uint32_t i = 0; i < sizes[n]; i++)
			cr_assert_eq(((const uint8_t *)args.params)[i], (uint8_t)i);
	}
}

Test(codec, sizes_that_do_not_fit_are_refused)
{
	struct launch_kernel_cmd *cmd = (void *)body;
	struct launch_kernel_args args;
	struct lane_msg m;

	for (uint32_t lie = 0; lie < 200; lie++) {
		m = launch(100);
		cmd->params_size = lie;
		/* Up to 104 is another, equally good command; fewer leaves dirt. */
		cr_assert_eq(launch_kernel_decode(&m, &args),
			     lie >= 100 && lie <= 104 ? 0 : -EPROTO, "%u", lie);
	}
	m = launch(100);
	cmd->params_size = UINT32_MAX;
	cr_assert_eq(launch_kernel_decode(&m, &args), -EPROTO);
	m = launch(32764);
	cmd->params_size = 32765; /* fits the body, not the description */
	cr_assert_eq(launch_kernel_decode(&m, &args), -EPROTO);
	for (uint32_t size = 0; size < launch_kernel_cmd_size(0, 100); size += 8) {
		m = launch(100);
		m.body_size = size;
		cr_assert_eq(launch_kernel_decode(&m, &args), -EPROTO, "%u", size);
	}
	m = launch(100);
	m.body_size += 8;
	cr_assert_eq(launch_kernel_decode(&m, &args), -EPROTO);
}

Test(codec, dirt_in_padding_is_refused)
{
	struct session_open_cmd *open = (void *)body;
	struct session_open_args open_args;
	struct launch_kernel_args args;
	struct lane_msg m = launch(9);

	for (unsigned i = 9; i < 16; i++) {
		m = launch(9);
		((uint8_t *)launch_kernel_cmd_params((void *)body, 0))[i] = 1;
		cr_assert_eq(launch_kernel_decode(&m, &args), -EPROTO, "%u", i);
	}
	m = msg(WIRE_OP_session_open, sizeof(*open));
	memset(body, 0xee, sizeof(*open));
	session_open_cmd_init(open);
	cr_assert_eq(session_open_decode(&m, &open_args), 0);
	open->pad0 = 1u << 31;
	cr_assert_eq(session_open_decode(&m, &open_args), -EOPNOTSUPP, "a newer field");
}

Test(codec, strings_end_exactly_where_they_say)
{
	struct module_global_cmd *cmd = (void *)body;
	char *name = module_global_cmd_name(cmd);
	struct module_global_args args;
	struct lane_msg m;

	module_global_cmd_init(cmd, 6);
	memcpy(name, "table", 6);
	m = msg(WIRE_OP_module_global, module_global_cmd_size(6));
	cr_assert_eq(module_global_decode(&m, &args), 0);
	cr_assert_str_eq(args.name, "table");
	name[5] = 's';
	cr_assert_eq(module_global_decode(&m, &args), -EPROTO, "no NUL");
	memcpy(name, "ta\0le", 6);
	cr_assert_eq(module_global_decode(&m, &args), -EPROTO, "a NUL inside");
	module_global_cmd_init(cmd, 0);
	m = msg(WIRE_OP_module_global, module_global_cmd_size(0));
	cr_assert_eq(module_global_decode(&m, &args), -EPROTO, "no room for a NUL");
}

Test(codec, payload_only_where_described)
{
	struct copy_htod_args args;
	struct lane_msg m;

	memset(body, 0, sizeof(body));
	m = msg(WIRE_OP_copy_htod, sizeof(struct copy_htod_cmd));
	cr_assert_eq(copy_htod_decode(&m, &args), -EPROTO, "needs one");
	m.payload = "x";
	m.payload_size = 1;
	cr_assert_eq(copy_htod_decode(&m, &args), 0);
	cr_assert_eq(args.payload_size, 1);
	m.hdr.op = WIRE_OP_cuCtxSynchronize;
	m.body_size = 0;
	cr_assert_eq(codec_check(&m), -EPROTO, "takes none");
	m.payload_size = 0;
	cr_assert_eq(codec_check(&m), 0);
}

Test(codec, replies_with_parts)
{
	uint32_t size = module_function_rep_size(2, 5);
	struct module_function_rep *rep = (void *)body;
	struct module_function_reply r;

	memset(body, 0xee, sizeof(body));
	module_function_rep_init(rep, 2, 5);
	module_function_rep_param(rep)[1].size = 8;
	memcpy(module_function_rep_real_name(rep, 2), "name", 5);
	cr_assert_eq(module_function_reply_decode(rep, size, &r), 0);
	cr_assert_eq(r.rep->param_count, 2);
	cr_assert_eq(r.param[1].size, 8);
	cr_assert_str_eq(r.real_name, "name");
	cr_assert_eq(module_function_reply_decode(rep, size - 8, &r), -EPROTO);
	cr_assert_eq(module_function_reply_decode(rep, 8, &r), -EPROTO);
	rep->param_count = UINT32_MAX;
	cr_assert_eq(module_function_reply_decode(rep, size, &r), -EPROTO);
}

Test(codec, unknown_operations_are_refused)
{
	struct lane_msg m = msg(0, 0);

	cr_assert_eq(codec_check(&m), -EPROTO);
	m.hdr.op = WIRE_NUM_OPS;
	cr_assert_eq(codec_check(&m), -EPROTO);
	m.hdr.op = UINT16_MAX;
	cr_assert_eq(codec_check(&m), -EPROTO);
	cr_assert_str_eq(codec_name(0), "?");
	cr_assert_str_eq(codec_name(WIRE_NUM_OPS), "?");
	for (uint16_t op = 1; op < WIRE_NUM_OPS; op++)
		cr_assert_str_neq(codec_name(op), "?");
}

Test(codec, commands_can_be_printed)
{
	char text[400], small[12];
	struct lane_msg m = launch(4);

	cr_assert_str_eq(
		codec_print(&m, text, sizeof(text)),
		"launch_kernel(func=0x1111222233334444, stream=1, after=0, grid[0]=1, "
		"grid[1]=2, grid[2]=3, block[0]=0, block[1]=32, block[2]=64, "
		"cluster[0]=0, cluster[1]=0, cluster[2]=0, shared_bytes=49152, "
		"flags=1, attr_count=0, params_size=4)");
	for (size_t size = 1; size <= sizeof(small); size++) {
		memset(small, 'z', sizeof(small));
		codec_print(&m, small, size);
		cr_assert(memchr(small, 0, size), "%zu", size);
		for (size_t i = size; i < sizeof(small); i++)
			cr_assert_eq(small[i], 'z');
	}
	m = msg(WIRE_OP_cuCtxSynchronize, 0);
	cr_assert_str_eq(codec_print(&m, text, sizeof(text)), "cuCtxSynchronize()");
}
