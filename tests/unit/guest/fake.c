/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cuda.h>

#include "base/fd.h"
#include "base/macros.h"
#include "codec.h"
#include "fake.h"
#include "feature.h"
#include "sensor.h"
#include "handle.h"
#include "host.h"

#define FAKE_LANES 256
#define WINDOW     (64ull << 20)

static struct fake fake;
static struct fake_launch last_launch; /* under record_lock */
static struct host_window window;
static bool has_window;
static int listener = -1;
static char socket_path[108];
static pid_t owner; /* of it */
static struct lane *lanes[FAKE_LANES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Makes what was recorded visible: nothing else orders us with the reader under TSan,
 * which does not see through the two mappings of the window. */
static pthread_mutex_t record_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t host_func_cond = PTHREAD_COND_INITIALIZER;
static uint64_t host_funcs[64], heap_used;
static unsigned host_head, host_tail;

static const struct fake_layout {
	const char *name;
	unsigned n;
	struct wire_kernel_param param[3];
} layouts[FAKE_NUM_FUNCS] = {
	[FAKE_PLAIN] = {"plain", 3, {{0, 8}, {8, 8}, {16, 4}}},
	[FAKE_ODD] = {"odd", 3, {{0, 1}, {8, 8}, {16, 3}}},
	[FAKE_LARGE] = {"large", 1, {{0, 32764}}},
	[FAKE_EMPTY] = {"empty", 0, {{0, 0}}},
};

/* ---- replies ---- */

static _Thread_local uint16_t op; /* that is being answered */

static uint32_t result_now(void)
{
	return atomic_exchange(&fake.fail_next, 0);
}

static void *begin(struct lane *l, uint16_t flags, size_t size, uint32_t payload,
		   void **ret_payload)
{
	struct wire_result *res =
		lane_reply_begin(l, flags, (uint32_t)size, payload, ret_payload);

	if (res) {
		lane_fixed(l, fake.fixed[op] ? MIN(fake.fixed[op], (uint32_t)size)
					     : MIN(codec_shapes[op].rep, (uint32_t)size));
		res->result = result_now();
		res->sticky = fake.sticky;
	}
	return res;
}

static void reply_plain(struct lane *l, size_t size)
{
	if (begin(l, 0, size, 0, NULL))
		lane_reply(l);
}

static void known(struct session_open_rep *rep, unsigned attr, int value)
{
	rep->attribute[attr] = value;
	rep->attribute_known[attr / 32] |= 1u << attr % 32;
}

static void reply_open(struct lane *l)
{
	struct session_open_rep *rep = begin(l, 0, sizeof(*rep), 0, NULL);
	unsigned i;

	if (!rep)
		return;
	rep->api = fake.api_hash;
	strcpy((char *)rep->release, fake.release);
	rep->device_count = 1;
	rep->driver_version = 13000;
	rep->granularity = 2u << 20;
	rep->memory_bytes = FAKE_HEAP_SIZE;
	strcpy((char *)rep->name, "Fake GPU");
	strcpy((char *)rep->driver, "571.2.3");
	for (i = 0; i < 16; i++)
		rep->uuid[i] = (uint8_t)(0x10 + i);
	rep->features = fake.features | FEATURE_APART;
	rep->priority_greatest = -5;
	for (i = 1; i < CU_DEVICE_ATTRIBUTE_MAX; i++)
		known(rep, i, 0);
	for (i = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
	     i <= CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y; i++)
		known(rep, i, 1024);
	known(rep, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64);
	known(rep, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff);
	known(rep, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535);
	known(rep, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535);
	known(rep, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32);
	known(rep, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536);
	known(rep, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 4);
	known(rep, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9);
	known(rep, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1);
	known(rep, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 7);
	known(rep, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1);
	known(rep, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152);
	lane_reply(l);
}

static void reply_operations(struct lane *l)
{
	struct operations_rep *rep =
		begin(l, 0, operations_rep_size(WIRE_NUM_OPS), 0, NULL);

	if (!rep)
		return;
	operations_rep_init(rep, WIRE_NUM_OPS);
	memcpy(operations_rep_known(rep), fake.known, sizeof(fake.known));
	lane_reply(l);
}

static void reply_load(struct lane *l, const struct module_load_cmd *cmd)
{
	static const char text[] = "ptxas: line 7: unknown instruction";
	uint32_t status = fake.load_status;
	uint32_t n = status ? MIN((uint32_t)sizeof(text), cmd->error_size) : 0;
	struct module_load_rep *rep = begin(l, 0, module_load_rep_size(0, n), 0, NULL);

	if (!rep)
		return;
	fake.last_source = cmd->source;
	module_load_rep_init(rep, 0, n);
	rep->status = status;
	rep->wall_time_ms = 1.5f;
	rep->function_count = FAKE_NUM_FUNCS;
	memcpy(module_load_rep_error_log(rep, 0), text, n);
	if (n)
		((char *)module_load_rep_error_log(rep, 0))[n - 1] = '\0';
	lane_reply(l);
}

static void reply_added(struct lane *l)
{
	struct link_add_rep *rep = begin(l, 0, link_add_rep_size(0, 0), 0, NULL);

	if (!rep)
		return;
	link_add_rep_init(rep, 0, 0);
	lane_reply(l);
}

static void reply_linked(struct lane *l)
{
	struct link_complete_rep *rep =
		begin(l, 0, link_complete_rep_size(0, 0), 0, NULL);

	if (!rep)
		return;
	link_complete_rep_init(rep, 0, 0);
	rep->image_size = sizeof(FAKE_CODE);
	lane_reply(l);
}

static void reply_code(struct lane *l)
{
	void *payload;

	if (!begin(l, 0, sizeof(struct link_image_rep), sizeof(FAKE_CODE), &payload))
		return;
	memcpy(payload, FAKE_CODE, sizeof(FAKE_CODE));
	lane_reply(l);
}

static const struct fake_layout *find_layout(const struct module_function_args *a)
{
	unsigned i;

	if (!*a->name)
		return a->cmd->index < FAKE_NUM_FUNCS ? &layouts[a->cmd->index] : NULL;
	for (i = 0; i < FAKE_NUM_FUNCS; i++) {
		if (strcmp(layouts[i].name, a->name) == 0)
			return &layouts[i];
	}
	return NULL;
}

static void reply_function(struct lane *l, const struct module_function_args *a)
{
	const struct fake_layout *f = find_layout(a);
	uint32_t n = f ? f->n : 0, name = f ? (uint32_t)strlen(f->name) + 1 : 0;
	struct module_function_rep *rep;

	fake.functions_asked++;
	rep = begin(l, 0, module_function_rep_size(n, name), 0, NULL);
	if (!rep)
		return;
	module_function_rep_init(rep, n, name);
	if (f) {
		rep->attribute[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 512;
		rep->attribute[CU_FUNC_ATTRIBUTE_NUM_REGS] =
			f == &layouts[FAKE_ODD] ? 128 : 32;
		rep->attribute[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 49152;
		memcpy(module_function_rep_param(rep), f->param, n * sizeof(f->param[0]));
		memcpy(module_function_rep_real_name(rep, n), f->name, name);
	} else {
		rep->res.result = CUDA_ERROR_NOT_FOUND;
	}
	lane_reply(l);
}

static void reply_set_attribute(struct lane *l, const struct func_set_attribute_cmd *cmd)
{
	struct func_set_attribute_rep *rep = begin(l, 0, sizeof(*rep), 0, NULL);

	if (!rep)
		return;
	rep->all[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 512;
	rep->all[cmd->attribute] = cmd->value;
	lane_reply(l);
}

static void reply_limit(struct lane *l, const struct ctx_get_limit_cmd *cmd)
{
	struct ctx_get_limit_rep *rep = begin(l, 0, sizeof(*rep), 0, NULL);

	if (!rep)
		return;
	rep->value = fake.limit[cmd->limit % ARRAY_SIZE(fake.limit)];
	lane_reply(l);
}

static void reply_alloc(struct lane *l, uint64_t size)
{
	struct cuMemAlloc_v2_rep *rep = begin(l, 0, sizeof(*rep), 0, NULL);

	if (!rep)
		return;
	fake.mallocs++;
	pthread_mutex_lock(&lock);
	if (size > FAKE_HEAP_SIZE - heap_used) {
		rep->res.result = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		rep->dptr = FAKE_BAND_BASE + heap_used;
		heap_used += ALIGN_UP(size, 256ull);
	}
	pthread_mutex_unlock(&lock);
	lane_reply(l);
}

static void reply_graph_mem(struct lane *l, uint64_t size)
{
	struct graph_mem_alloc_rep *rep = begin(l, 0, sizeof(*rep), 0, NULL);

	if (!rep)
		return;
	pthread_mutex_lock(&lock);
	rep->dptr = FAKE_BAND_BASE + heap_used;
	heap_used += ALIGN_UP(size, 256ull);
	pthread_mutex_unlock(&lock);
	lane_reply(l);
}

static void reply_pointer(struct lane *l, uint64_t ptr)
{
	struct pointer_info_rep *rep = begin(l, 0, sizeof(*rep), 0, NULL);

	if (!rep)
		return;
	if (ptr - FAKE_BAND_BASE >= FAKE_HEAP_SIZE + fake.beyond)
		rep->res.result = CUDA_ERROR_INVALID_VALUE;
	rep->base = FAKE_BAND_BASE;
	rep->size = FAKE_HEAP_SIZE + fake.beyond;
	rep->buffer_id = 42;
	rep->mapped = 1;
	if (fake.block) {
		rep->base = ptr - (ptr - FAKE_BAND_BASE) % fake.block;
		rep->size = fake.block - 100;
		rep->buffer_id = rep->base / fake.block;
		rep->ctx = 1;
	}
	lane_reply(l);
}

static void reply_status(struct lane *l)
{
	struct device_status_rep *rep = begin(l, 0, sizeof(*rep), 0, NULL);

	if (!rep)
		return;
	rep->memory_total = FAKE_HEAP_SIZE;
	rep->memory_used = 4096;
	rep->gpu_percent = 55;
	lane_reply(l);
}

static void reply_sensors(struct lane *l)
{
	struct device_sensors_rep *rep = begin(l, 0, sizeof(*rep), 0, NULL);

	if (!rep)
		return;
	memset(rep->value, 0xff, sizeof(rep->value));
	rep->value[SENSOR_POWER] = 7000;
	rep->value[SENSOR_POWER_INSTANT] = 7500;
	rep->value[SENSOR_ECC_UNCORRECTED] = 3;
	rep->value[SENSOR_CLOCK_REASONS_KNOWN] = 0x1ff;
	rep->value[SENSOR_ENERGY_HIGH] = 7; /* low: all bits set */
	rep->value[SENSOR_CLOCK_SM] = 345;
	lane_reply(l);
}

static void reply_processes(struct lane *l)
{
	static const struct wire_process_info all[] = {{101, 1, 1024, 20, 5},
						       {103, 3, 4096, 0, 0},
						       {102, 2, 2048, 30, 6}};
	struct process_list_rep *rep = begin(l, 0, process_list_rep_size(3, 3), 0, NULL);

	if (!rep)
		return;
	process_list_rep_init(rep, 3, 3);
	memcpy(process_list_rep_process(rep), all, sizeof(all));
	process_list_rep_draws(rep, 3)[1] = 1;
	lane_reply(l);
}

/* ---- memory ---- */

static bool in_heap(uint64_t addr, uint64_t pitch, uint64_t width, uint64_t height)
{
	uint64_t at = addr - FAKE_BAND_BASE, span = (height - 1) * pitch + width;

	return at <= FAKE_HEAP_SIZE && span <= FAKE_HEAP_SIZE - at;
}

static uint32_t do_htod(const struct copy_htod_args *a)
{
	const struct copy_htod_cmd *c = a->cmd;
	uint32_t row;

	fake.pieces++;
	if ((uint64_t)c->width * c->height != a->payload_size ||
	    !in_heap(c->dst, c->pitch, c->width, c->height))
		return CUDA_ERROR_INVALID_VALUE;
	for (row = 0; row < c->height; row++)
		memcpy(fake.heap + (c->dst - FAKE_BAND_BASE) + row * c->pitch,
		       (const uint8_t *)a->payload + (size_t)row * c->width, c->width);
	return CUDA_SUCCESS;
}

static void reply_dtoh(struct lane *l, const struct copy_dtoh_cmd *c)
{
	uint64_t total = c->width * c->height, at = 0;

	if (!in_heap(c->src, c->pitch, c->width, c->height)) {
		fake.fail_next = CUDA_ERROR_INVALID_VALUE;
		reply_plain(l, sizeof(struct copy_dtoh_rep));
		return;
	}
	while (at < total) { /* odd pieces, to see that the guest does not care */
		uint32_t n = (uint32_t)MIN(total - at, 1000003ull), i;
		uint16_t flags = at + n < total ? WIRE_F_MORE : 0;
		uint8_t *p;

		if (!begin(l, flags, sizeof(struct copy_dtoh_rep), n, (void **)&p))
			return;
		for (i = 0; i < n; i++)
			p[i] = fake.heap[(c->src - FAKE_BAND_BASE) +
					 (at + i) / c->width * c->pitch +
					 (at + i) % c->width];
		at += n;
		if (lane_reply(l) < 0)
			return;
	}
}

/* ---- host functions ---- */

static void reply_host_func(struct lane *l)
{
	struct host_func_wait_rep *rep;
	uint64_t id;

	pthread_mutex_lock(&lock);
	while (host_head == host_tail && !lane_dead(l))
		pthread_cond_wait(&host_func_cond, &lock);
	id = host_funcs[host_head++ % ARRAY_SIZE(host_funcs)];
	pthread_mutex_unlock(&lock);
	rep = begin(l, 0, sizeof(*rep), 0, NULL);
	if (!rep)
		return;
	rep->id = id;
	lane_reply(l);
}

static void queue_host_func(uint64_t id)
{
	pthread_mutex_lock(&lock);
	host_funcs[host_tail++ % ARRAY_SIZE(host_funcs)] = id;
	pthread_cond_broadcast(&host_func_cond);
	pthread_mutex_unlock(&lock);
}

/* ---- dispatch ---- */

static void keep_launch(const struct lane_msg *m)
{
	struct launch_kernel_args a;

	if (launch_kernel_decode(m, &a) < 0)
		abort();
	last_launch.cmd = *a.cmd;
	memcpy(last_launch.attrs, a.attr, a.cmd->attr_count * sizeof(a.attr[0]));
	memcpy(last_launch.params, a.params, a.cmd->params_size);
	fake.launches++;
}

static void keep_image(const struct image_data_cmd *c, const struct lane_msg *m)
{
	if (c->offset == 0) {
		fake.images++;
		fake.last_image_size = 0;
		memcpy(fake.last_image, m->payload,
		       MIN(m->payload_size, (uint32_t)sizeof(fake.last_image)));
	}
	fake.last_image_size += m->payload_size;
}

static void set_limit(const struct ctx_set_limit_cmd *c)
{
	fake.limit[c->limit % ARRAY_SIZE(fake.limit)] = ALIGN_UP(c->value, 256ull);
}

static void count(const struct lane_msg *m)
{
	switch (m->hdr.op) {
	case WIRE_OP_ctx_set_current:
		fake.ctx_sets++;
		break;
	case WIRE_OP_ctx_set_limit:
		set_limit(m->body);
		break;
	case WIRE_OP_stream_create:
		fake.stream_creates++;
		fake.last_stream = *(const struct stream_create_cmd *)m->body;
		break;
	case WIRE_OP_stream_destroy:
		fake.stream_destroys++;
		break;
	case WIRE_OP_launch_kernel:
		keep_launch(m);
		break;
	case WIRE_OP_image_data:
		keep_image(m->body, m);
		break;
	case WIRE_OP_host_func:
		queue_host_func(((const struct host_func_cmd *)m->body)->id);
		break;
	case WIRE_OP_refused:
		fake.last_refusal = *(const struct refused_cmd *)m->body;
		fake.refusals++;
		break;
	case WIRE_OP_primary_retain:
		fake.retains++;
		break;
	case WIRE_OP_primary_release:
		fake.releases++;
		break;
	case WIRE_OP_link_create:
		fake.links++;
		break;
	}
}

static void serve_call(struct lane *l, const struct lane_msg *m)
{
	struct module_function_args fa;
	uint64_t size;

	switch (m->hdr.op) {
	case WIRE_OP_session_open:
		reply_open(l);
		break;
	case WIRE_OP_operations:
		reply_operations(l);
		break;
	case WIRE_OP_cuMemAlloc_v2:
		size = ((const struct cuMemAlloc_v2_cmd *)m->body)->bytesize;
		reply_alloc(l, size);
		break;
	case WIRE_OP_graph_mem_alloc:
		size = ((const struct graph_mem_alloc_cmd *)m->body)->bytes;
		reply_graph_mem(l, size);
		break;
	case WIRE_OP_module_load:
		reply_load(l, m->body);
		break;
	case WIRE_OP_link_add:
		reply_added(l);
		break;
	case WIRE_OP_link_complete:
		reply_linked(l);
		break;
	case WIRE_OP_link_image:
		reply_code(l);
		break;
	case WIRE_OP_module_function:
		if (module_function_decode(m, &fa) < 0)
			abort();
		reply_function(l, &fa);
		break;
	case WIRE_OP_ctx_get_limit:
		reply_limit(l, m->body);
		break;
	case WIRE_OP_func_set_attribute:
		reply_set_attribute(l, m->body);
		break;
	case WIRE_OP_copy_dtoh:
		reply_dtoh(l, m->body);
		break;
	case WIRE_OP_pointer_info:
		reply_pointer(l, ((const struct pointer_info_cmd *)m->body)->ptr);
		break;
	case WIRE_OP_device_status:
		reply_status(l);
		break;
	case WIRE_OP_device_sensors:
		reply_sensors(l);
		break;
	case WIRE_OP_process_list:
		reply_processes(l);
		break;
	case WIRE_OP_host_func_wait:
		reply_host_func(l);
		break;
	default:
		reply_plain(l, 512); /* zeros; longer than any that is read */
	}
}

struct refused_cmd fake_last_refusal(void)
{
	struct refused_cmd last;

	pthread_mutex_lock(&record_lock);
	last = fake.last_refusal;
	pthread_mutex_unlock(&record_lock);
	return last;
}

static void serve_one(struct lane *l, const struct lane_msg *m)
{
	struct copy_htod_args ha;
	uint32_t failed = CUDA_SUCCESS;

	if (codec_check(m) < 0) {
		fprintf(stderr, "fake: bad %s\n", codec_name(m->hdr.op));
		abort();
	}
	pthread_mutex_lock(&record_lock);
	count(m);
	if (m->hdr.op == WIRE_OP_copy_htod) {
		copy_htod_decode(m, &ha);
		failed = do_htod(&ha);
	}
	pthread_mutex_unlock(&record_lock);
	if (failed)
		fake.fail_next = failed;
	if (m->hdr.flags & WIRE_F_ASYNC) {
		fake.posts++;
		return;
	}
	fake.calls++;
	op = m->hdr.op;
	serve_call(l, m);
}

static void *serve(void *arg)
{
	struct lane *l = arg;
	struct lane_msg m;

	while (lane_recv(l, &m) == 0) {
		while (fake.deaf && !lane_dead(l))
			usleep(1000);
		serve_one(l, &m);
	}
	return NULL;
}

static void accept_one(int sock)
{
	static const struct wire_welcome base = {
		.token = {1},
		.session = 1,
		.band_base = FAKE_BAND_BASE,
		.band_size = FAKE_BAND_SIZE,
	};
	struct wire_hello hello;
	struct host_lane_opts opts = {.hello = &hello,
				      .base = &base,
				      .window = has_window ? &window : NULL,
				      .spin_us = 50};
	pthread_t thread;
	struct lane *l;

	if (host_hello(sock, 1000, &hello) < 0)
		return;
	opts.index = fake.lanes;
	if (host_lane_new(sock, &opts, &l) < 0)
		return;
	lanes[fake.lanes] = l;
	fake.lanes++;
	pthread_create(&thread, NULL, serve, l);
	pthread_detach(thread);
}

static void *accept_all(void *unused)
{
	int sock;

	while ((sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		accept_one(sock);
	return NULL;
}

static void make_window(void)
{
	window = (struct host_window){.size = WINDOW, .pass_fd = true};
	window.fd = fd_memfd("fake window", WINDOW);
	if (window.fd < 0 || host_window_map(&window) < 0)
		abort();
}

static void remove_socket(void)
{
	if (getpid() == owner) /* and not a child of a test */
		unlink(socket_path);
}

struct fake *fake_start(bool with_window)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	char env[128];
	pthread_t thread;

	fake.api_hash = WIRE_API_HASH;
	strcpy(fake.release, WEFT_VERSION);
	for (unsigned i = 0; i < WIRE_NUM_OPS; i++)
		fake.known[i] = codec_shapes[i].known;
	fake.heap = calloc(1, FAKE_HEAP_SIZE);
	has_window = with_window;
	if (with_window)
		make_window();
	owner = getpid();
	snprintf(socket_path, sizeof(socket_path), "/tmp/weft-fake-%d.sock", owner);
	unlink(socket_path);
	atexit(remove_socket);
	strcpy(sa.sun_path, socket_path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
	    listen(listener, 64) < 0)
		abort();
	snprintf(env, sizeof(env), "unix:%s", socket_path);
	setenv("WEFT_HOST", env, 1);
	pthread_create(&thread, NULL, accept_all, NULL);
	pthread_detach(thread);
	return &fake;
}

struct fake *fake_get(void)
{
	return &fake;
}

void fake_kill(struct fake *f)
{
	unsigned i;

	shutdown(listener, SHUT_RDWR);
	unlink(socket_path);
	for (i = 0; i < f->lanes; i++)
		lane_kill(lanes[i]);
}

void fake_drain(struct fake *f)
{
	pthread_mutex_lock(&record_lock);
	pthread_mutex_unlock(&record_lock);
}

void fake_last_launch(struct fake_launch *ret_launch)
{
	pthread_mutex_lock(&record_lock);
	*ret_launch = last_launch;
	pthread_mutex_unlock(&record_lock);
}
