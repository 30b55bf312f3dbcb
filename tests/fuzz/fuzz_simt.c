/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor on any PTX that the parser accepts: every kernel is lowered and run for a
 * while. Whatever it does, it ends in a status, not in a crash. Lines "//link" part an
 * input into modules, which are linked first.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "ptx/ptx.h"
#include "simt/simt.h"
#include "simt/texture.h"

#define BAND     ((uint64_t)4 << 20)
#define PAGES    (BAND >> SIMT_PAGE_SHIFT)
#define BUDGET   3000 /* instructions of a warp */
#define MAX_VARS 256
#define MODULES  4
#define BLOCKS   4   /* of a grid, and the most in a cluster */
#define PIECES   16u /* of the kernels' heap, 1 KiB each */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t perm[PAGES];
static struct simt_memory mem;
static struct simt_cta *ctas[BLOCKS];

/* Objects 1 to 4, of every shape; texels in pages that may be read and in others. */
#define TEXTURES 5
static struct simt_texture texture[TEXTURES];
static struct simt_texture *textures[TEXTURES];

static void init_texture(unsigned i, uint32_t w, uint32_t h, uint32_t d,
			 enum simt_texel texel, unsigned channels, unsigned bytes)
{
	struct simt_texture *t = &texture[i];

	textures[i] = t;
	t->num_levels = i == 3 ? 3 : 1;
	for (unsigned k = 0; k < t->num_levels; k++)
		t->level[k] = (struct simt_tex_level){
			.addr = mem.base + i * (3u << SIMT_PAGE_SHIFT) / 2,
			.pitch = w * channels * bytes,
			.slice = w * h * channels * bytes,
			.width = w >> k,
			.height = h >> k,
			.depth = d,
		};
	t->texel = (uint8_t)texel;
	t->channels = (uint8_t)channels;
	t->channel_bytes = (uint8_t)bytes;
	for (unsigned k = 0; k < 3; k++)
		t->address[k] = (i + k) % 4;
	t->normalized = i & 1;
	t->linear = i != 4;
	t->mip_linear = t->srgb = i == 3;
	t->max_lod = 2;
}

static void init_textures(void)
{
	init_texture(1, 37, 19, 1, SIMT_TEXEL_FLOAT, 1, 4);
	init_texture(2, 16, 300, 9, SIMT_TEXEL_SNORM, 4, 2);
	init_texture(3, 8, 8, 12, SIMT_TEXEL_UNORM, 4, 1);
	init_texture(4, 100000, 1, 1, SIMT_TEXEL_SINT, 2, 4);
	mem.textures = textures;
	mem.num_textures = TEXTURES;
}

static void init(void)
{
	void *p = mmap(NULL, BAND + (1 << SIMT_PAGE_SHIFT), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t page = 1 << SIMT_PAGE_SHIFT;

	mem.base = ((uint64_t)(uintptr_t)p + page - 1) & ~(page - 1);
	mem.size = BAND;
	mem.perm = perm;
	/* pages of every kind */
	for (size_t i = 0; i < PAGES; i++)
		perm[i] = i % 8 == 0   ? SIMT_PERM_NONE
			  : i % 8 == 1 ? SIMT_PERM_READ
				       : SIMT_PERM_WRITE;
	init_textures();
	if (p == MAP_FAILED)
		__builtin_trap();
	for (unsigned i = 0; i < BLOCKS; i++)
		if (simt_cta_new(&ctas[i]) < 0)
			__builtin_trap();
}

/* ---- what kernels ask for ---- */

static int print(void *user, const void *rec, size_t bytes)
{
	char text[300];

	/* Ours, so they are good. */
	if (simt_printf_text(rec, bytes, text, sizeof(text)) < 0)
		__builtin_trap();
	return 0;
}

static void assert_fail(void *user, const char *text)
{
	if (text[strlen(text) - 1] != '\n')
		__builtin_trap();
}

static bool taken[PIECES];

static uint64_t heap_base(void)
{
	return mem.base + (3 << SIMT_PAGE_SHIFT);
}

static uint64_t heap_alloc(void *user, uint64_t bytes)
{
	for (unsigned i = 0; bytes <= 1024 && i < PIECES; i++) {
		if (taken[i])
			continue;
		taken[i] = true;
		return heap_base() + i * 1024ul;
	}
	return 0;
}

static int heap_free(void *user, uint64_t addr)
{
	uint64_t at = addr - heap_base();

	if (at % 1024 || at / 1024 >= PIECES || !taken[at / 1024])
		return -EINVAL;
	taken[at / 1024] = false;
	return 0;
}

static const struct simt_calls calls = {print, assert_fail, heap_alloc, heap_free};

static bool place_vars(struct simt_program *prog)
{
	size_t num;
	struct simt_var *v = simt_program_vars(prog, &num);
	uint64_t at = 2 << SIMT_PAGE_SHIFT;

	if (num > MAX_VARS)
		return false;
	for (size_t i = 0; i < num; i++) {
		uint64_t align = v[i].align ? v[i].align : 1;

		at = (at + align - 1) & ~(align - 1);
		if (v[i].bytes > BAND || at + v[i].bytes > BAND)
			return false;
		v[i].addr = mem.base + at;
		at += v[i].bytes;
	}
	for (size_t i = 0; i < num; i++)
		simt_var_init(prog, i, (void *)(uintptr_t)v[i].addr);
	return true;
}

/* The cluster's blocks in turn, or one block that is none's. */
static void run_blocks(const struct simt_launch *l)
{
	unsigned n = l->cluster_size, left = n;
	bool over[BLOCKS] = {false};

	for (unsigned i = 0; i < n; i++)
		if (simt_cta_start(ctas[i], l, (uint32_t[]){i, 0, 0}, i) < 0)
			return;
	if (l->is_cluster && simt_cta_cluster(ctas, n) < 0)
		return;
	for (int turn = 0; turn < 3 && left; turn++)
		for (unsigned i = 0; i < n; i++) {
			enum simt_status status;

			if (over[i])
				continue;
			status = simt_cta_run(ctas[i], BUDGET / n);
			if (status == SIMT_FAULT) {
				(void)simt_fault_name(simt_cta_fault(ctas[i])->code);
				return;
			}
			over[i] = status == SIMT_DONE;
			left -= over[i];
		}
}

static void run(const struct simt_func *f, uint32_t threads)
{
	static uint64_t params[SIMT_MAX_PARAM_BYTES / 8 + 1];
	struct simt_launch l = {
		.func = f,
		.mem = &mem,
		.calls = &calls,
		.grid = {BLOCKS, 1, 1},
		.block = {threads, 1, 1},
		.dyn_shared_bytes = 256,
		.params = params,
		.stack_bytes = 512,
		.grid_workspace = mem.base + (4 << SIMT_PAGE_SHIFT),
		.num_sms = 2,
	};

	for (size_t i = 0; i < sizeof(params) / 8; i++)
		params[i] = mem.base + (2 << SIMT_PAGE_SHIFT) + i * 1024 % BAND;
	memset((void *)(uintptr_t)l.grid_workspace, 0, 32);
	memset(taken, 0, sizeof(taken));
	if (simt_launch_prepare(&l) == 0 && l.cluster_size <= BLOCKS)
		run_blocks(&l);
}

static void execute(const struct ptx_module *m, struct ptx_log *log)
{
	struct simt_program *prog = NULL;

	if (simt_program_new(m, log, &prog) == 0 && place_vars(prog) &&
	    simt_program_lower(prog, log) == 0)
		for (size_t i = 0; i < simt_program_num_kernels(prog) && i < 8; i++) {
			const struct simt_func *f = simt_program_kernel(prog, i);
			const uint32_t *want = simt_func_attr(f)->reqntid;

			run(f, want[0] ? want[0] : i % 2 ? 33 : 50);
		}
	simt_program_free(prog);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char mark[] = "\n//link\n";
	const char *text = (const char *)data, *end = text + size, *next;
	struct ptx_module *m[MODULES], *all = NULL;
	char buf[1024];
	struct ptx_log log = {buf, sizeof(buf), 0};
	unsigned n = 0;

	if (!ctas[0])
		init();
	for (; text && n < MODULES; text = next ? next + strlen(mark) : NULL) {
		next = memmem(text, (size_t)(end - text), mark, strlen(mark));
		if (ptx_parse(text, (size_t)((next ? next : end) - text), &log, &m[n]) <
		    0)
			break;
		n++;
	}
	if (n == 1)
		execute(m[0], &log);
	else if (n && ptx_link((const struct ptx_module *const *)m, n, &log, &all) == 0)
		execute(all, &log);
	ptx_module_free(all);
	while (n)
		ptx_module_free(m[--n]);
	return 0;
}
