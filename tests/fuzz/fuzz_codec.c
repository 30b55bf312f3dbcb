/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoders of commands and replies on arbitrary bytes. Input: operation (2 bytes:
 * op_key.h), payload size (1 byte), words of the structure (1 byte; 0: as many as it should
 * have), 4 bytes unused, body. The body lies in memory of
 * exactly its size, so a read outside is found; what a decoder accepts is read to its
 * end.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "fit.h"
#include "op_key.h"

#define HEADER 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t sink;

static void read_all(const void *p, uint64_t size)
{
	for (uint64_t i = 0; i < size; i++)
		sink ^= ((const uint8_t *)p)[i];
}

static void read_str(const char *s, uint32_t size)
{
	if (strlen(s) + 1 != size)
		abort();
}

/* Every command with variable parts. */
static void read_parts(const struct lane_msg *m)
{
	struct launch_kernel_args launch;
	struct module_function_args function;
	struct module_global_args global;
	struct link_add_args add;

	if (m->hdr.op == WIRE_OP_launch_kernel && !launch_kernel_decode(m, &launch))
		read_all(launch.params, launch.cmd->params_size);
	if (m->hdr.op == WIRE_OP_module_function && !module_function_decode(m, &function))
		read_str(function.name, function.cmd->name_size);
	if (m->hdr.op == WIRE_OP_module_global && !module_global_decode(m, &global))
		read_str(global.name, global.cmd->name_size);
	if (m->hdr.op == WIRE_OP_link_add && !link_add_decode(m, &add))
		read_str(add.name, add.cmd->name_size);
}

/* Every reply with variable parts; the guest does not trust its host blindly either. */
static void read_reply(uint16_t op, const void *body, uint32_t size)
{
	struct module_function_reply function;
	struct module_load_reply load;
	struct process_list_reply list;

	if (op == WIRE_OP_module_load && !module_load_reply_decode(body, size, &load)) {
		read_all(load.info_log, load.rep->info_log_size);
		read_all(load.error_log, load.rep->error_log_size);
	}
	if (op == WIRE_OP_module_function &&
	    !module_function_reply_decode(body, size, &function)) {
		read_all(function.param,
			 sizeof(*function.param) * (uint64_t)function.rep->param_count);
		read_all(function.real_name, function.rep->real_name_size);
	}
	if (op == WIRE_OP_process_list && !process_list_reply_decode(body, size, &list))
		read_all(list.process,
			 sizeof(*list.process) * (uint64_t)list.rep->process_count);
}

/* Gives the body of an end of another age the size that it has here, in memory of exactly
 * that size. */
static void fit(struct lane_msg *m, uint32_t have)
{
	uint32_t fixed = m->hdr.op < WIRE_NUM_OPS ? codec_shapes[m->hdr.op].cmd : 0;
	void *to;

	if (!have || have > m->body_size || !fit_is_known(m->body, have, fixed))
		return;
	to = malloc(MAX(m->body_size - have + fixed, 1u));
	if (!to)
		return;
	m->body_size = fit_body(to, m->body, m->body_size, have, fixed);
	m->body = to;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct lane_msg m = {0};
	char text[128];
	void *body;

	if (size < HEADER || size > HEADER + WIRE_BODY_MAX)
		return 0;
	m.hdr.op = op_named(data);
	m.payload_size = data[2];
	m.payload = m.payload_size ? data : NULL;
	m.body_size = (uint32_t)(size - HEADER) & ~7u; /* lanes pass multiples of 8 */
	body = malloc(m.body_size ? m.body_size : 1);
	if (!body)
		return 0;
	memcpy(body, data + HEADER, m.body_size);
	m.body = body;
	fit(&m, data[3] * 8u);
	if (codec_check(&m) == 0) {
		read_parts(&m);
		codec_print(&m, text, sizeof(text));
	}
	read_reply(m.hdr.op, m.body, m.body_size);
	if (m.body != body)
		free((void *)(uintptr_t)m.body);
	free(body);
	return 0;
}
