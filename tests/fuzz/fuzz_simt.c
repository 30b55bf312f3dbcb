/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor on any PTX that the parser accepts: every kernel is lowered and run for a
 * while. Whatever it does, it ends in a status, not in a crash.
 */
#include <string.h>
#include <sys/mman.h>

#include "ptx/ptx.h"
#include "simt/simt.h"
#include "simt/texture.h"

#define BAND     ((uint64_t)4 << 20)
#define PAGES    (BAND >> SIMT_PAGE_SHIFT)
#define BUDGET   3000 /* instructions of a warp */
#define MAX_VARS 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t perm[PAGES];
static struct simt_memory mem;
static struct simt_cta *cta;

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
	if (p == MAP_FAILED || simt_cta_new(&cta) < 0)
		__builtin_trap();
}

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

static void run(const struct simt_func *f, uint32_t threads)
{
	static uint64_t params[SIMT_MAX_PARAM_BYTES / 8 + 1];
	struct simt_launch l = {
		.func = f,
		.mem = &mem,
		.grid = {2, 1, 1},
		.block = {threads, 1, 1},
		.dyn_shared_bytes = 256,
		.params = params,
		.stack_bytes = 512,
		.num_sms = 2,
	};
	struct simt_fault fault;

	for (size_t i = 0; i < sizeof(params) / 8; i++)
		params[i] = mem.base + (2 << SIMT_PAGE_SHIFT) + i * 1024 % BAND;

	if (simt_launch_prepare(&l) < 0 ||
	    simt_cta_start(cta, &l, (uint32_t[]){1, 0, 0}, 1) < 0)
		return;
	for (int i = 0; i < 3; i++)
		if (simt_cta_run(cta, BUDGET) == SIMT_DONE)
			break;
	fault = *simt_cta_fault(cta);
	(void)simt_fault_name(fault.code);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ptx_module *m = NULL;
	struct simt_program *prog = NULL;
	char buf[1024];
	struct ptx_log log = {buf, sizeof(buf), 0};

	if (!cta)
		init();
	if (ptx_parse((const char *)data, size, &log, &m) < 0)
		return 0;
	if (simt_program_new(m, &log, &prog) == 0 && place_vars(prog) &&
	    simt_program_lower(prog, &log) == 0)
		for (size_t i = 0; i < simt_program_num_kernels(prog) && i < 4; i++) {
			const struct simt_func *f = simt_program_kernel(prog, i);
			const uint32_t *want = simt_func_attr(f)->reqntid;

			run(f, want[0] ? want[0] : i % 2 ? 33 : 50);
		}
	simt_program_free(prog);
	ptx_module_free(m);
	return 0;
}
