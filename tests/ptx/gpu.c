/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ptx/ptx.h"
#include "ptx/rewrite/persist.h"
#include "ptx/rewrite/yield.h"

#include "gpu.h"

#define BAND_BYTES ((uint64_t)1 << 30)
#define PAGE       ((uint64_t)1 << SIMT_PAGE_SHIFT)

int gpu_init(struct gpu *g)
{
	void *p;

	memset(g, 0, sizeof(*g));
	p = mmap(NULL, BAND_BYTES + PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	g->mem.base = ((uint64_t)(uintptr_t)p + PAGE - 1) & ~(PAGE - 1);
	g->mem.size = BAND_BYTES;
	g->perm = calloc(BAND_BYTES >> SIMT_PAGE_SHIFT, 1);
	g->mem.perm = g->perm;
	g->next = g->mem.base + PAGE; /* the first page is never mapped */
	g->stack_bytes = 1024;
	g->slice = UINT64_MAX;
	return g->perm && simt_cta_new(&g->cta) == 0 ? simt_cta_new(&g->again) : -ENOMEM;
}

void gpu_fini(struct gpu *g)
{
	simt_program_free(g->prog);
	ptx_module_free(g->module);
	simt_cta_free(g->cta);
	simt_cta_free(g->again);
	free(g->perm);
	memset(g, 0, sizeof(*g));
}

void *gpu_alloc(struct gpu *g, size_t bytes)
{
	uint64_t at = g->next, pages = (bytes + PAGE - 1) / PAGE;

	if (at + pages * PAGE > g->mem.base + g->mem.size)
		return NULL;
	for (uint64_t i = 0; i < pages; i++)
		g->perm[(at - g->mem.base) / PAGE + i] = SIMT_PERM_WRITE;
	memset((void *)(uintptr_t)at, 0, pages * PAGE);
	/* a page that is not mapped follows, so that overruns are seen */
	g->next += (pages + 1) * PAGE;
	return (void *)(uintptr_t)at;
}

void gpu_reset(struct gpu *g)
{
	memset(g->perm, 0, g->mem.size >> SIMT_PAGE_SHIFT);
	g->next = g->mem.base + PAGE;
}

static int load(struct gpu *g, const char *ptx)
{
	struct ptx_log log = {g->log, sizeof(g->log), 0};
	struct simt_var *vars;
	size_t num;
	int r;

	simt_program_free(g->prog);
	ptx_module_free(g->module);
	g->prog = NULL;
	g->module = NULL;
	g->log[0] = 0;
	r = ptx_parse(ptx, strlen(ptx), &log, &g->module);
	if (r < 0)
		return r;
	r = simt_program_new(g->module, &log, &g->prog);
	if (r < 0)
		return r;
	vars = simt_program_vars(g->prog, &num);
	for (size_t i = 0; i < num; i++)
		vars[i].addr = (uint64_t)(uintptr_t)gpu_alloc(g, vars[i].bytes + 1);
	for (size_t i = 0; i < num; i++)
		simt_var_init(g->prog, i, (void *)(uintptr_t)vars[i].addr);
	return simt_program_lower(g->prog, &log);
}

/* Whether kernels are to stop at yield points. */
static bool yields(void)
{
	const char *how = getenv("WEFT_TEST_PERSIST");

	return how && !strcmp(how, "yield");
}

/* With persistent forms of its kernels, if the tests are to run those. */
int gpu_load(struct gpu *g, const char *ptx)
{
	struct ptx_log log = {g->log, sizeof(g->log), 0};
	struct ptx_persist p = {0};
	int r;

	if (getenv("WEFT_TEST_PERSIST") &&
	    ptx_persist(ptx, strlen(ptx), yields(), &log, &p) < 0)
		p.text = NULL;
	r = load(g, p.text ? p.text : ptx);
	ptx_persist_fini(&p);
	return r;
}

int gpu_load_file(struct gpu *g, const char *name)
{
	const char *dir = getenv("PTX_DIR");
	char path[4096], *text;
	long len;
	FILE *f;
	int r;

	snprintf(path, sizeof(path), "%s/%s", dir ? dir : ".", name);
	f = fopen(path, "r");
	if (!f || fseek(f, 0, SEEK_END) || (len = ftell(f)) < 0)
		return -ENOENT;
	rewind(f);
	text = calloc(1, (size_t)len + 1);
	r = text && fread(text, 1, (size_t)len, f) == (size_t)len ? gpu_load(g, text)
								  : -EIO;
	free(text);
	fclose(f);
	return r;
}

void *gpu_var(struct gpu *g, const char *name)
{
	size_t num;
	struct simt_var *vars = simt_program_vars(g->prog, &num);

	for (size_t i = 0; i < num; i++)
		if (!strcmp(vars[i].name, name))
			return (void *)(uintptr_t)vars[i].addr;
	return NULL;
}

/* 0: there is none. */
static uint64_t gpu_var_bytes(struct gpu *g, const char *name)
{
	size_t num;
	struct simt_var *vars = simt_program_vars(g->prog, &num);

	for (size_t i = 0; i < num; i++)
		if (!strcmp(vars[i].name, name))
			return vars[i].bytes;
	return 0;
}

static int prepare(struct gpu *g, struct simt_launch *l, const char *kernel,
		   uint32_t grid, uint32_t block, const void *params)
{
	*l = (struct simt_launch){
		.func = simt_program_find(g->prog, kernel),
		.mem = &g->mem,
		.calls = g->calls,
		.user = g->user,
		.grid = {grid, 1, 1},
		.block = {block, 1, 1},
		.dyn_shared_bytes = g->shared_bytes,
		.params = params,
		.stack_bytes = g->stack_bytes,
		.num_sms = 2,
	};
	memset(&g->fault, 0, sizeof(g->fault));
	memset(&g->stats, 0, sizeof(g->stats));
	return l->func ? simt_launch_prepare(l) : -ENOENT;
}

static void add_stats(struct gpu *g, const struct simt_cta *c)
{
	struct simt_stats s;

	simt_cta_stats(c, &s);
	__atomic_fetch_add(&g->stats.warp_instr, s.warp_instr, __ATOMIC_RELAXED);
	__atomic_fetch_add(&g->stats.thread_instr, s.thread_instr, __ATOMIC_RELAXED);
}

static enum simt_status run_block(struct gpu *g, struct simt_cta *c,
				  const struct simt_launch *l, uint32_t id)
{
	enum simt_status s;

	if (simt_cta_start(c, l, (uint32_t[]){id, 0, 0}, id % 2) < 0)
		return SIMT_FAULT;
	do {
		s = simt_cta_run(c, g->slice);
		if (s == SIMT_WAIT)
			__atomic_fetch_add(&g->waits, 1, __ATOMIC_RELAXED);
	} while (s != SIMT_DONE && s != SIMT_FAULT);
	add_stats(g, c);
	if (s == SIMT_FAULT)
		g->fault = *simt_cta_fault(c);
	return s;
}

#define ROUNDS_MAX 1000u

static unsigned seed = 1;

static enum simt_status some(struct gpu *g, struct simt_cta *c)
{
	enum simt_status s = simt_cta_run(c, 1 + (unsigned)rand_r(&seed) % 99);

	if (s == SIMT_FAULT)
		g->fault = *simt_cta_fault(c);
	if (s == SIMT_DONE || s == SIMT_FAULT)
		add_stats(g, c);
	return s;
}

static bool goes(enum simt_status s)
{
	return s != SIMT_DONE && s != SIMT_FAULT;
}

/* Runs a block that is told to stop at some moment; or, before that, to go on after all, by another
 * one with its number beside it, since it might have stopped. */
static enum simt_status run_once(struct gpu *g, const struct simt_launch *l,
				 struct ptx_persist_control *control,
				 struct ptx_persist_args *args)
{
	unsigned at = (unsigned)rand_r(&seed) % 64;
	unsigned again = rand_r(&seed) % 2 ? UINT_MAX : (unsigned)rand_r(&seed) % 1024;
	enum simt_status one = SIMT_MORE, other = SIMT_DONE;

	if (simt_cta_start(g->cta, l, (uint32_t[]){0, 0, 0}, 0) < 0)
		return SIMT_FAULT;
	for (unsigned i = 0; goes(one) || goes(other); i++) {
		control->yield = i >= at && i < again;
		args->resume |= i == again;
		if (i == again &&
		    simt_cta_start(g->again, l, (uint32_t[]){0, 0, 0}, 0) < 0)
			return SIMT_FAULT;
		other = i == again ? SIMT_MORE : other;
		one = goes(one) ? some(g, g->cta) : one;
		other = goes(other) ? some(g, g->again) : other;
	}
	return one == SIMT_DONE ? other : one;
}

/* And so on until the grid is done; SIMT_WAIT: it never is. */
static enum simt_status run_yielding(struct gpu *g, const struct simt_launch *l,
				     struct ptx_persist_control *control,
				     struct ptx_persist_args *args)
{
	enum simt_status s = SIMT_DONE;

	for (unsigned i = 0; s == SIMT_DONE && !control->grids; i++) {
		if (i == ROUNDS_MAX)
			return SIMT_WAIT;
		s = run_once(g, l, control, args);
		g->stops += !control->grids;
		args->resume = 1;
	}
	return s;
}

/* Room for what is kept of a block; NULL: the kernel has no yield points. */
static void *keep(struct gpu *g, const char *kernel, uint32_t block,
		  struct ptx_persist_control *control, struct ptx_persist_args *args)
{
	char name[512];
	uint64_t thread;
	char *kept;

	snprintf(name, sizeof(name), "%s%s", PTX_PERSIST_STATE, kernel);
	thread = yields() ? gpu_var_bytes(g, name) : 0;
	if (!thread)
		return NULL;
	args->launched = 0;
	args->stride = PTX_YIELD_BLOCK_BYTES + thread * block + (256 << 10);
	kept = gpu_alloc(g, 64 + args->stride);
	control->kept = (uintptr_t)kept;
	control->states = (uintptr_t)kept + 64;
	return kept;
}

/* One block does the grid. */
static enum simt_status launch_persistent(struct gpu *g, const char *kernel,
					  const char *copy, uint32_t grid, uint32_t block,
					  const void *params)
{
	uint32_t bytes = ptx_find_func(g->module, kernel)->param_bytes, at;
	struct ptx_persist_control *control = gpu_var(g, PTX_PERSIST_CONTROL);
	struct ptx_persist_args args = {.control = (uint64_t)(uintptr_t)control,
					.grid = {grid, 1, 1},
					.blocks = grid,
					.launched = 1};
	_Alignas(8) char with[8192] = "";
	struct simt_launch l;
	enum simt_status s;
	bool yields;

	memset(control, 0, sizeof(*control));
	if (bytes)
		memcpy(with, params, bytes);
	at = (bytes + 7) / 8 * 8;
	yields = keep(g, kernel, block, control, &args);
	memcpy(with + at, &args, sizeof(args));
	if (prepare(g, &l, copy, 1, block, with) < 0)
		return SIMT_FAULT;
	s = yields ? run_yielding(g, &l, control, (void *)(with + at))
		   : run_block(g, g->cta, &l, 0);
	if (s == SIMT_FAULT && !strcmp(g->fault.func, copy))
		g->fault.func += strlen(PTX_PERSIST_NAME);
	return s;
}

enum simt_status gpu_launch(struct gpu *g, const char *kernel, uint32_t grid,
			    uint32_t block, const void *params)
{
	struct simt_launch l;
	enum simt_status s = SIMT_DONE;
	char copy[512];

	snprintf(copy, sizeof(copy), "%s%s", PTX_PERSIST_NAME, kernel);
	if (!g->as_is && simt_program_find(g->prog, copy))
		return launch_persistent(g, kernel, copy, grid, block, params);
	if (prepare(g, &l, kernel, grid, block, params) < 0)
		return SIMT_FAULT;
	for (uint32_t i = 0; i < grid && s == SIMT_DONE; i++)
		s = run_block(g, g->cta, &l, i);
	return s;
}

enum simt_status gpu_launch_together(struct gpu *g, const char *kernel, uint32_t grid,
				     uint32_t block, const void *params)
{
	struct simt_cta **c = calloc(grid, sizeof(*c));
	bool *done = calloc(grid, sizeof(*done));
	struct simt_launch l;
	enum simt_status s = SIMT_DONE;
	uint32_t left = grid;

	if (!c || !done || prepare(g, &l, kernel, grid, block, params) < 0)
		return SIMT_FAULT;
	for (uint32_t i = 0; i < grid; i++)
		if (simt_cta_new(&c[i]) < 0 ||
		    simt_cta_start(c[i], &l, (uint32_t[]){i, 0, 0}, i % 2) < 0)
			return SIMT_FAULT;
	while (left && s != SIMT_FAULT) {
		for (uint32_t i = 0; i < grid && s != SIMT_FAULT; i++) {
			if (done[i])
				continue;
			s = simt_cta_run(c[i], 10000);
			done[i] = s == SIMT_DONE;
			left -= done[i];
			if (s == SIMT_FAULT)
				g->fault = *simt_cta_fault(c[i]);
		}
	}
	for (uint32_t i = 0; i < grid; i++)
		simt_cta_free(c[i]);
	free(c);
	free(done);
	return s == SIMT_FAULT ? s : SIMT_DONE;
}

struct worker {
	struct gpu *g;
	const struct simt_launch *l;
	uint32_t *next, grid;
	enum simt_status status;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	struct simt_cta *c;
	uint32_t i;

	w->status = SIMT_FAULT;
	if (simt_cta_new(&c) < 0)
		return NULL;
	w->status = SIMT_DONE;
	while ((i = __atomic_fetch_add(w->next, 1, __ATOMIC_RELAXED)) < w->grid &&
	       w->status == SIMT_DONE)
		w->status = run_block(w->g, c, w->l, i);
	simt_cta_free(c);
	return NULL;
}

enum simt_status gpu_launch_threads(struct gpu *g, const char *kernel, uint32_t grid,
				    uint32_t block, const void *params, unsigned num)
{
	struct simt_launch l;
	struct worker w[16];
	pthread_t t[16];
	uint32_t next = 0;
	enum simt_status s = SIMT_DONE;

	if (num > 16 || prepare(g, &l, kernel, grid, block, params) < 0)
		return SIMT_FAULT;
	for (unsigned i = 0; i < num; i++) {
		w[i] = (struct worker){g, &l, &next, grid, SIMT_DONE};
		if (pthread_create(&t[i], NULL, work, &w[i]))
			return SIMT_FAULT;
	}
	for (unsigned i = 0; i < num; i++) {
		pthread_join(t[i], NULL);
		if (w[i].status != SIMT_DONE)
			s = w[i].status;
	}
	return s;
}
