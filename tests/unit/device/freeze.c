/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that stand still while memory moves under them; and what keeps them from that. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "device/cuda/rm/freezer.h"
#include "test.h"

#define RM_ALLOC _IOC(_IOC_READ | _IOC_WRITE, 'F', 0x2b, 48)
#define COMPUTES 1
#define WORDS    1024u
#define WAIT_NS  (5 * NSEC_PER_SEC)

/* count(p): adds 1 to p[0] until p[1] is not 0, and to p[2] once then. */
static const char text[] =
	".version 8.0\n.target sm_75\n.address_size 64\n"
	".visible .entry count(.param .u64 p) {\n"
	".reg .b32 %r<8>; .reg .b64 %d<2>; .reg .pred %p<2>;\n"
	"ld.param.u64 %d1, [p];\n"
	"L: ld.volatile.global.u32 %r1, [%d1]; add.u32 %r1, %r1, 1;\n"
	"st.volatile.global.u32 [%d1], %r1; ld.volatile.global.u32 %r2, [%d1+4];\n"
	"setp.eq.u32 %p1, %r2, 0; @%p1 bra L;\n"
	"ld.volatile.global.u32 %r3, [%d1+8]; add.u32 %r3, %r3, 1;\n"
	"st.volatile.global.u32 [%d1+8], %r3; ret; }\n";

struct work {
	struct fix *f;
	struct fix_mem m;
	struct dev_module *mod;
	struct dev_stream *st, *beside;
	struct dev_launch l;
	CUdeviceptr p;
};

static uint32_t word(const struct work *w, uint64_t i)
{
	struct fix *f = w->f;
	uint32_t v = 0;

	OK(f->ops->copy.read(f->ctx, w->beside, &v, w->p + 4 * i, 4));
	return v;
}

static void set_word(const struct work *w, uint64_t i, uint32_t v)
{
	struct fix *f = w->f;

	OK(f->ops->copy.write(f->ctx, w->beside, w->p + 4 * i, &v, 4));
}

static void launch_in(struct work *w, struct dev_stream *st)
{
	struct fix *f = w->f;

	w->l.params = &w->p;
	OK(f->ops->func.launch(f->ctx, st, &w->l));
}

static void launch(struct work *w)
{
	launch_in(w, w->st);
}

/* A kernel counts in its stream, and has begun to. */
static struct work begin(struct fix *f)
{
	static const uint32_t zero[WORDS];
	struct dev_jit jit = {.optimization_level = 4};
	struct work w = {.f = f, .m = fix_alloc(f, 2 * MIB)};

	w.p = w.m.addr;
	OK(f->ops->module.load(f->ctx, text, sizeof(text), &jit, &w.mod));
	OK(f->ops->module.function(w.mod, "count", &w.l.func));
	OK(f->ops->stream.create(f->ctx, DEV_STREAM_NON_BLOCKING, 0, &w.st));
	OK(f->ops->stream.create(f->ctx, DEV_STREAM_NON_BLOCKING, 0, &w.beside));
	OK(f->ops->copy.write(f->ctx, w.beside, w.p, zero, sizeof(zero)));
	for (int d = 0; d < 3; d++)
		w.l.grid[d] = w.l.block[d] = 1;
	w.l.params_size = sizeof(w.p);
	launch(&w);
	while (!word(&w, 0))
		usleep(100);
	return w;
}

static bool goes_on(const struct work *w)
{
	uint64_t until = clock_now_ns() + WAIT_NS;
	uint32_t before = word(w, 0);

	while (word(w, 0) == before) {
		if (clock_now_ns() > until)
			return false;
		usleep(100);
	}
	return true;
}

static bool stands(const struct work *w)
{
	uint32_t before = word(w, 0);

	usleep(20000);
	return word(w, 0) == before;
}

static void end(struct work *w)
{
	struct fix *f = w->f;

	set_word(w, 1, 1);
	OK(f->ops->stream.synchronize(f->ctx, w->st));
	f->ops->stream.destroy(w->st);
	f->ops->stream.destroy(w->beside);
	f->ops->module.unload(w->mod);
	fix_free(f, &w->m);
}

/* ---- a driver whose channels can be taken off ---- */

static struct {
	unsigned on, off, names, refuse_at;
	uint32_t handles;
} rm;

static long disable(struct rm_control *c)
{
	const uint8_t *p = (const uint8_t *)(uintptr_t)c->params;

	memcpy(&rm.names, p + 4, sizeof(rm.names));
	*(*p ? &rm.off : &rm.on) += 1;
	if (*p && rm.off == rm.refuse_at)
		c->status = 0x23;
	return 0;
}

static long fake_kernel(int fd, unsigned long request, void *arg)
{
	struct rm_control *c = arg;

	if (_IOC_NR(request) == NV_ESC_RM_ALLOC)
		((struct rm_alloc *)arg)->object = ++rm.handles;
	else if (_IOC_NR(request) == NV_ESC_RM_CONTROL && c->cmd == 0x2080110b)
		return disable(c);
	return 0;
}

static void alloc(uint32_t parent, uint32_t class)
{
	uint32_t params[8] = {[3] = COMPUTES}, arg[12] = {0xc11e, parent, 0, class};

	memcpy(&arg[4], &(void *){params}, sizeof(void *));
	cr_assert_eq(ioctl(7, RM_ALLOC, arg), 0);
}

/* A GPU that is Weft's has no channels: kernels go on then, but all else is as it would be. */
static bool fakes(const struct fix *f)
{
	if (f->soft || strcmp(f->info.name, SOFT_DEVICE_NAME) != 0)
		return false;
	if (cuda_rm_kernel == fake_kernel)
		return true;
	cuda_rm_kernel = fake_kernel;
	alloc(1, 0x2080);
	alloc(1, 0xa06c);
	alloc(rm.handles, 0xc86f);
	return true;
}

/* ---- tests ---- */

DEVICE_TEST(freeze, kernels_stand_still_and_go_on)
{
	struct work w = begin(f);
	bool fake = fakes(f);

	for (int i = 0; i < 10; i++) {
		cr_assert(f->ops->freeze(f->dev));
		cr_assert(fake || stands(&w));
		f->ops->thaw(f->dev);
		cr_assert(goes_on(&w));
	}
	cr_assert_eq(rm.on, rm.off);
	end(&w);
}

static void move(struct work *w)
{
	struct fix *f = w->f;
	static uint32_t had[WORDS];
	struct dev_mem *to;

	OK(f->ops->copy.read(f->ctx, w->beside, had, w->p, sizeof(had)));
	OK(f->ops->memory.create(f->dev, w->m.size, DEV_MEMORY_DEVICE, &to));
	OK(f->ops->memory.unmap(f->dev, w->p, w->m.size));
	f->ops->memory.release(f->dev, w->m.mem);
	w->m.mem = to;
	OK(f->ops->memory.map(f->dev, w->p, to));
	OK(f->ops->memory.set_access(f->dev, w->p, w->m.size,
				     CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	OK(f->ops->copy.write(f->ctx, w->beside, w->p, had, sizeof(had)));
}

DEVICE_TEST(freeze, memory_moves_under_a_kernel)
{
	struct work w = begin(f);
	uint32_t before;

	for (int i = 0; i < 20 && !fakes(f); i++) {
		cr_assert(f->ops->freeze(f->dev));
		before = word(&w, 0);
		move(&w);
		f->ops->thaw(f->dev);
		cr_assert(goes_on(&w));
		cr_assert_gt(word(&w, 0), before);
	}
	end(&w);
}

/* Copies behind a kernel in its stream cannot begin. */
DEVICE_TEST(freeze, copies_behind_a_kernel_do_not_matter)
{
	struct work w = begin(f);

	fakes(f);
	OK(f->ops->copy.fill(f->ctx, w.st, w.p + 64, 0, 7, 4, 4, 1));
	cr_assert(f->ops->freeze(f->dev));
	f->ops->thaw(f->dev);
	launch(&w);
	OK(f->ops->copy.fill(f->ctx, w.st, w.p + 64, 0, 8, 4, 4, 1));
	cr_assert(f->ops->freeze(f->dev));
	f->ops->thaw(f->dev);
	end(&w);
}

/* Until kernels have written its word, which they do not. */
DEVICE_TEST(freeze, a_stream_that_waits_for_kernels_stands_as_well)
{
	struct work w = begin(f);
	const struct dev_mem_op any = {.op = CU_STREAM_MEM_OP_WAIT_VALUE_32,
				       .flags = CU_STREAM_WAIT_VALUE_GEQ,
				       .addr = w.p + 12,
				       .value = 1};
	struct dev_stream *st;

	fakes(f);
	OK(f->ops->stream.create(f->ctx, DEV_STREAM_NON_BLOCKING, 0, &st));
	OK(f->ops->stream.wait_for_kernels(f->ctx, st, w.p + 8, 1));
	OK(f->ops->copy.fill(f->ctx, st, w.p + 64, 0, 7, 4, 4, 1));
	cr_assert(f->ops->freeze(f->dev));
	f->ops->thaw(f->dev);
	set_word(&w, 1, 1);
	OK(f->ops->stream.synchronize(f->ctx, st));
	cr_assert_eq(word(&w, 2), 1);
	OK(f->ops->stream.mem_ops(f->ctx, st, &any, 1, 0));
	cr_assert(!f->ops->freeze(f->dev), "anybody may write it");
	set_word(&w, 3, 1);
	OK(f->ops->stream.synchronize(f->ctx, st));
	f->ops->stream.destroy(st);
	end(&w);
}

DEVICE_TEST(freeze, what_may_copy_meanwhile_keeps_kernels_going)
{
	struct work w = begin(f);
	struct block b;

	fakes(f);
	block_put(f, w.beside, &b);
	block_wait(&b);
	OK(f->ops->copy.fill(f->ctx, w.beside, w.p + 64, 0, 7, 4, 4, 1));
	cr_assert(!f->ops->freeze(f->dev), "it may end at any time");
	cr_assert_eq(rm.on, rm.off);
	block_release(&b);
	OK(f->ops->stream.synchronize(f->ctx, w.beside));
	cr_assert(goes_on(&w));
	cr_assert(f->ops->freeze(f->dev));
	f->ops->thaw(f->dev);
	end(&w);
}

/* Others have the device meanwhile. */
SOFT_TEST(freeze, kernels_that_stand_still_have_no_turns)
{
	struct work w = begin(f);
	uint64_t unused, before;

	cr_assert(f->ops->freeze(f->dev));
	before = f->ops->busy_ns(f->dev, &unused);
	usleep(20000);
	cr_assert_eq(f->ops->busy_ns(f->dev, &unused), before);
	f->ops->thaw(f->dev);
	cr_assert(goes_on(&w));
	cr_assert_gt(f->ops->busy_ns(f->dev, &unused), before);
	end(&w);
}

/* Copies go on, and kernels that are frozen besides stay where they are. */
DEVICE_TEST(freeze, kernels_are_preempted_and_go_on)
{
	struct work w = begin(f);
	bool fake = fakes(f);
	uint32_t word;

	for (int i = 0; i < 10; i++) {
		cr_assert(f->ops->preempt(f->dev, true));
		cr_assert(fake || stands(&w));
		OK(f->ops->copy.read(f->ctx, w.beside, &word, w.p, sizeof(word)));
		cr_assert(f->ops->freeze(f->dev));
		if (i % 2)
			f->ops->preempt(f->dev, false);
		else
			f->ops->thaw(f->dev);
		cr_assert(fake || stands(&w));
		if (i % 2)
			f->ops->thaw(f->dev);
		else
			f->ops->preempt(f->dev, false);
		cr_assert(goes_on(&w));
	}
	cr_assert_eq(rm.on, rm.off);
	end(&w);
}

/* Something else than kernels may be at work, which keeps them from being frozen. */
DEVICE_TEST(freeze, kernels_are_preempted_beside_anything)
{
	struct work w = begin(f);
	bool fake = fakes(f);
	struct block b;

	block_put(f, w.beside, &b);
	block_wait(&b);
	cr_assert(!f->ops->freeze(f->dev));
	cr_assert(f->ops->preempt(f->dev, true));
	block_release(&b);
	cr_assert(fake || stands(&w));
	f->ops->preempt(f->dev, false);
	cr_assert(goes_on(&w));
	end(&w);
}

struct loading {
	struct fix *f;
	_Atomic bool done;
};

static void *load_and_unload(void *arg)
{
	struct dev_jit jit = {.optimization_level = 4};
	struct loading *l = arg;
	struct fix *f = l->f;
	struct dev_module *mod;

	OK(f->ops->module.load(f->ctx, text, sizeof(text), &jit, &mod));
	atomic_store(&l->done, true);
	f->ops->module.unload(mod);
	return NULL;
}

/* A driver may wait for kernels while it loads code, with locks that moving memory takes. */
DEVICE_TEST(freeze, code_is_loaded_when_kernels_go_on)
{
	struct work w = begin(f);
	struct loading l = {.f = f};
	pthread_t thread;

	fakes(f);
	cr_assert(f->ops->freeze(f->dev));
	cr_assert_eq(pthread_create(&thread, NULL, load_and_unload, &l), 0);
	usleep(50000);
	cr_assert(f->soft || !atomic_load(&l.done));
	f->ops->thaw(f->dev);
	set_word(&w, 1, 1);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert(atomic_load(&l.done));
	end(&w);
}

/* Between copies, kernels come and end. */
DEVICE_TEST(freeze, runs_of_kernels_follow_one_another)
{
	struct work w = begin(f);

	fakes(f);
	for (uint32_t i = 1; i < 20; i++) {
		set_word(&w, 1, 1);
		OK(f->ops->stream.synchronize(f->ctx, w.st));
		cr_assert_eq(word(&w, 2), i);
		OK(f->ops->copy.fill(f->ctx, w.st, w.p + 4, 0, 0, 4, 1, 1));
		launch(&w);
		cr_assert(goes_on(&w));
		cr_assert(f->ops->freeze(f->dev));
		f->ops->thaw(f->dev);
	}
	end(&w);
}

DEVICE_TEST(freeze, a_stream_that_ends_is_remembered)
{
	struct work w = begin(f);
	struct dev_stream *st;
	struct block b;

	fakes(f);
	OK(f->ops->stream.create(f->ctx, DEV_STREAM_NON_BLOCKING, 0, &st));
	block_put(f, st, &b);
	OK(f->ops->copy.fill(f->ctx, st, w.p + 64, 0, 7, 4, 4, 1));
	f->ops->stream.destroy(st);
	cr_assert(!f->ops->freeze(f->dev));
	block_release(&b);
	end(&w);
}

/* A driver does not tell of one that has ended; of the context it does. */
DEVICE_TEST(freeze, all_is_known_when_the_context_has_done_it)
{
	struct work w = begin(f);
	struct dev_stream *st;

	fakes(f);
	if (!f->soft) {
		OK(f->ops->stream.create(f->ctx, DEV_STREAM_NON_BLOCKING, 0, &st));
		OK(f->ops->copy.fill(f->ctx, st, w.p + 64, 0, 7, 4, 4, 1));
		launch_in(&w, st);
		f->ops->stream.destroy(st);
		cr_assert(!f->ops->freeze(f->dev));
		set_word(&w, 1, 1);
		OK(f->ops->ctx.synchronize(f->ctx));
		set_word(&w, 1, 0);
		launch(&w);
		cr_assert(goes_on(&w));
		cr_assert(f->ops->freeze(f->dev));
		f->ops->thaw(f->dev);
	}
	end(&w);
}

static int give_back(uint32_t object)
{
	uint32_t gone[4] = {0xc11e, 0, object};

	return ioctl(7, _IOC(_IOC_READ | _IOC_WRITE, 'F', NV_ESC_RM_FREE, 16), gone);
}

#define DEVICE  1u /* handles that fakes() makes */
#define GROUP   2u
#define CHANNEL 3u

Test(freeze, channels_that_are_gone_are_not_named)
{
	struct fix f = {.info.name = SOFT_DEVICE_NAME};

	cr_assert(fakes(&f));
	alloc(GROUP, 0xc86f);
	alloc(GROUP + 7, 0xc86f);
	cr_assert(cuda_freezer_freeze());
	cr_assert_eq(rm.names, 2, "those of groups that compute");
	alloc(GROUP, 0xc86f);
	cr_assert_eq(give_back(CHANNEL), 0);
	cuda_freezer_thaw();
	cr_assert(rm.on == 1 && rm.names == 1, "what was taken off, and is there");
	cuda_freezer_thaw();
	cr_assert_eq(rm.on, 1);
	cr_assert(cuda_freezer_freeze());
	cr_assert_eq(rm.names, 2);
	cuda_freezer_thaw();
	cr_assert_eq(give_back(DEVICE), 0);
	cr_assert(!cuda_freezer_freeze(), "gone with the device that the group was of");
	cr_assert_eq(rm.off, 2);
}

/* More than one call takes. */
Test(freeze, all_or_none)
{
	struct fix f = {.info.name = SOFT_DEVICE_NAME};

	cr_assert(fakes(&f));
	for (unsigned i = 0; i < 99; i++)
		alloc(GROUP, 0xc86f);
	cr_assert(cuda_freezer_freeze());
	cr_assert(rm.off == 2 && rm.names == 36);
	cuda_freezer_thaw();
	cr_assert_eq(rm.on, 2);
	rm.refuse_at = 4;
	cr_assert(!cuda_freezer_freeze());
	cr_assert(rm.off == 4 && rm.on == 3 && rm.names == 64, "put back");
	for (unsigned i = 0; i < 999; i++)
		alloc(GROUP, 0xc86f);
	cr_assert(!cuda_freezer_freeze(), "there is no room to know them all");
	cr_assert_eq(rm.off, 4);
}
