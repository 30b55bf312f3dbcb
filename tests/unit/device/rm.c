/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the driver library to the kernel go through ours: copy engines take short
 * turns, host memory lies in large pages, or in pages of this process. */
#include "device/cuda/rm/hostpage.h"
#include "device/cuda/rm/switches.h"
#include "device/cuda/rm/tsg.h"
#include "device/cuda/rm/userpage.h"
#include "test.h"

#define RM_ALLOC     _IOC(_IOC_READ | _IOC_WRITE, 'F', 0x2b, 48)
#define RM_ALLOC_OLD _IOC(_IOC_READ | _IOC_WRITE, 'F', 0x2b, 32)
#define TSG_CLASS    0xa06c
#define MEMORY_CLASS 0x3e
#define COPY_2       11
#define MIB          (1ull << 20)
#define NO_MEMORY    0x51

Test(device_rm, other_requests_are_as_ever)
{
	uint32_t params[8] = {[3] = COPY_2}, alloc[12] = {[3] = TSG_CLASS};
	int fd[2], n = 0;

	cr_assert_eq(pipe(fd), 0);
	cr_assert_eq(write(fd[1], "four", 4), 4);
	cr_assert_eq(ioctl(fd[0], FIONREAD, &n), 0);
	cr_assert_eq(n, 4);
	memcpy(&alloc[4], &(void *){params}, sizeof(void *));
	cr_assert_eq(ioctl(fd[0], RM_ALLOC, alloc), -1);
	cr_assert_eq(errno, ENOTTY);
	cr_assert_eq(ioctl(fd[0], RM_ALLOC, NULL), -1);
	cr_assert_eq(ioctl(-1, FIONREAD, &n), -1);
	cr_assert_eq(errno, EBADF);
	cr_assert_eq(cuda_tsg_slices(), 0);
	close(fd[0]);
	close(fd[1]);
}

/* ---- groups ---- */

/* A driver that makes what it is asked to, and remembers who was given a slice. */
static struct {
	int n, refuse;
	uint32_t client, object, cmd, size;
	uint64_t us;
} driver;

static long driver_ioctl(int fd, unsigned long request, void *arg)
{
	uint32_t *p = arg;

	if (_IOC_NR(request) == 0x2b) {
		p[2] = 0xcafe; /* the driver chooses the handle */
		return 0;
	}
	cr_assert_eq(_IOC_NR(request), 0x2a);
	cr_assert_eq(_IOC_SIZE(request), 32);
	cr_assert_eq(fd, 7);
	driver.n++;
	driver.client = p[0];
	driver.object = p[1];
	driver.cmd = p[2];
	driver.size = p[6];
	driver.us = *(uint64_t *)(uintptr_t)(p[4] | (uint64_t)p[5] << 32);
	if (driver.refuse == 1)
		return -1;
	p[7] = driver.refuse;
	return 0;
}

static int alloc(uint32_t class, uint32_t engine)
{
	uint32_t params[8] = {[3] = engine}, arg[12] = {0xc11e, 0xde51ce, 0, class};

	memcpy(&arg[4], &(void *){params}, sizeof(void *));
	return ioctl(7, RM_ALLOC, arg);
}

Test(device_rm, groups_of_copy_engines_get_a_slice)
{
	static const uint32_t copy[] = {9, COPY_2, 18, 0x34, 0x3d};
	static const uint32_t other[] = {0, 1 /* computes */, 8, 19, 0x33, 0x3e};

	cuda_rm_kernel = driver_ioctl;
	for (size_t i = 0; i < ARRAY_SIZE(other); i++)
		cr_assert_eq(alloc(TSG_CLASS, other[i]), 0);
	cr_assert_eq(alloc(TSG_CLASS + 1, COPY_2), 0);
	cr_assert_eq(driver.n, 0);
	for (size_t i = 0; i < ARRAY_SIZE(copy); i++)
		cr_assert_eq(alloc(TSG_CLASS, copy[i]), 0);
	cr_assert_eq(driver.n, ARRAY_SIZE(copy));
	cr_assert_eq(cuda_tsg_slices(), ARRAY_SIZE(copy));
	cr_assert_eq(driver.client, 0xc11e);
	cr_assert_eq(driver.object, 0xcafe);
	cr_assert_eq(driver.cmd, 0xa06c0103);
	cr_assert_eq(driver.size, sizeof(uint64_t));
	cr_assert(driver.us > 0 && driver.us < 1024);
	for (driver.refuse = 1; driver.refuse <= 2; driver.refuse++)
		cr_assert_eq(alloc(TSG_CLASS, COPY_2), 0,
			     "the group is there all the same");
	cr_assert_eq(cuda_tsg_slices(), ARRAY_SIZE(copy));
}

Test(device_rm, groups_that_compute_get_the_slice_that_is_said)
{
	cuda_rm_kernel = driver_ioctl;
	cr_assert(!cuda_tsg_compute(500), "there is none");
	cr_assert_eq(driver.n, 0);
	cr_assert_eq(alloc(TSG_CLASS, 1), 0);
	cr_assert_eq(driver.n, 1, "one that is made later gets it, too");
	cr_assert_eq(driver.us, 500);
	cr_assert_eq(driver.cmd, 0xa06c0103);
	cr_assert_eq(driver.object, 0xcafe);
	cr_assert_eq(alloc(TSG_CLASS, 1), 0);
	cr_assert(cuda_tsg_compute(30));
	cr_assert_eq(driver.n, 4);
	cr_assert_eq(driver.us, 30);
	driver.refuse = 0x33;
	cr_assert(!cuda_tsg_compute(60), "their contexts have ended");
	driver.refuse = driver.n = 0;
	cr_assert(!cuda_tsg_compute(60));
	cr_assert_eq(driver.n, 0, "those are forgotten");
	for (unsigned i = 0; i < 20; i++)
		cr_assert_eq(alloc(TSG_CLASS, 1), 0);
	cr_assert_eq(driver.n, 20);
	cr_assert(cuda_tsg_compute(90));
	cr_assert_eq(driver.n, 36, "more than there is room for");
}

DEVICE_TEST(device_rm, the_device_takes_a_slice)
{
	if (!f->ops->slice)
		return;
	cr_assert(f->ops->slice(f->dev, 10000));
	cr_assert(f->ops->slice(f->dev, 0));
}

DEVICE_TEST(device_rm, copy_engines_take_short_turns)
{
	cr_assert_eq(cuda_tsg_slices() > 0, !f->soft);
}

/* ---- context switches ---- */

/* A driver that notes switches: its time, and memory that this process has mapped: the head of
 * a buffer (its second word says where the next record comes), and records of 32 bytes. */
static struct {
	uint64_t now;
	uint32_t memory[2];
	int n_memories, files[2], refuse, flushed;
	uint32_t *head;
	unsigned char *records;
	uint32_t put;
	bool bound, all_users;
} noting;

#define NOTED_MAX 8192u
#define MS(n)     ((n)*1000000ull)
#define STATE     90000ull /* ns of each time for the state */

static void *mapped(int i, size_t size)
{
	noting.files[i] = memfd_create("noting", MFD_CLOEXEC);
	cr_assert_geq(noting.files[i], 0);
	cr_assert_eq(ftruncate(noting.files[i], (off_t)size), 0);
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, noting.files[i], 0);
}

static void note(uint8_t tag, uint32_t pid, uint64_t ns)
{
	unsigned char *r = noting.records + 32ul * noting.put;

	r[8] = tag;
	memcpy(r + 16, &pid, 4);
	memcpy(r + 24, &ns, 8);
	noting.put = (noting.put + 1) % NOTED_MAX;
}

static uint32_t noting_control(uint32_t object, uint32_t cmd, void *params)
{
	uint32_t *p = params;

	switch (cmd) {
	case 0x20800403: /* its time */
		memcpy(p, &noting.now, 8);
		return 0;
	case 0x20801238: /* binds */
		noting.bound = true;
		noting.all_users = ((unsigned char *)p)[16];
		return noting.refuse == 1 ? 0x56 : 0;
	case 0x90cd0104: /* has what was noted written */
		noting.head[1] = noting.put;
		noting.flushed++;
		return noting.refuse == 2 ? 0x57 : 0;
	default:
		(void)object;
		return 0;
	}
}

static long noting_ioctl(int fd, unsigned long request, void *arg)
{
	uint32_t *p = arg;

	cr_assert_eq(fd, 7);
	switch (_IOC_NR(request)) {
	case 0x2a:
		p[7] = noting_control(p[1], p[2],
				      (void *)(uintptr_t)(p[4] | (uint64_t)p[5] << 32));
		return 0;
	case 0x2b:
		if (p[3] == MEMORY_CLASS)
			noting.memory[noting.n_memories++ & 1] = p[2];
		if (!p[2])
			p[2] = 0xcafe;
		return 0;
	case 0x4e: /* maps: the file that comes with it is what is mapped then */
		dup2(noting.files[p[2] == noting.memory[1]], (int)p[12]);
		return 0;
	}
	return -1;
}

static void notes(void)
{
	noting.head = mapped(0, 4096);
	noting.records = mapped(1, NOTED_MAX * 32ul);
	noting.now = 1000000;
	cuda_rm_kernel = noting_ioctl;
	cuda_rm_file = "/dev/null";
}

Test(device_rm, time_on_the_engine_is_told)
{
	uint32_t pid = (uint32_t)getpid();
	uint64_t had = 0;

	notes();
	cr_assert(!cuda_switches_had(&had), "there is no group");
	cr_assert_eq(alloc(0x2080, 0), 0);
	cr_assert_eq(alloc(TSG_CLASS, 1), 0);
	cr_assert(!cuda_switches_had(&had), "nothing was noted");
	cr_assert(noting.bound && !noting.all_users && noting.flushed == 1);
	note(6, pid + 1, 1000100);
	cr_assert(!cuda_switches_had(&had), "nor of this process");
	note(7, pid + 1, 1000200);
	note(7, pid, 1000300);
	cr_assert(cuda_switches_had(&had) && had == 0, "since when it had been there?");
	note(6, pid, MS(2));
	note(7, pid, MS(4));
	note(6, pid, MS(5));
	noting.now = MS(5) + 250000;
	cr_assert(cuda_switches_had(&had));
	cr_assert_eq(had, MS(2) - STATE + 250000 - STATE, "and it goes on");
	noting.now = MS(6);
	note(7, pid, MS(5) + 260000);
	cr_assert(cuda_switches_had(&had));
	cr_assert_eq(had, MS(2) + 260000 - 2ull * STATE);
	for (unsigned i = 0; i < NOTED_MAX; i++) {
		note(6, pid, MS(10 + i));
		note(7, pid, MS(10 + i) + STATE + 5);
		cr_assert(cuda_switches_had(&had));
	}
	cr_assert_eq(had, MS(2) + 260000 - 2ull * STATE + 5ull * NOTED_MAX,
		     "the buffer goes round");
	note(6, pid, MS(9000000));
	note(7, pid, MS(9000000) + STATE / 2);
	note(6, pid, MS(9000001));
	cr_assert(cuda_switches_had(&had));
	cr_assert_eq(had, MS(2) + 260000 - 2ull * STATE + 5ull * NOTED_MAX,
		     "less than state takes; and it came after the time was asked");
}

Test(device_rm, a_kernel_that_does_not_tell_is_not_asked_again)
{
	uint64_t had;
	int n;

	notes();
	cr_assert_eq(alloc(TSG_CLASS, 1), 0);
	cr_assert(!cuda_switches_had(&had), "which device?");
	noting.refuse = 1;
	cr_assert_eq(alloc(0x2080, 0), 0);
	cr_assert_eq(alloc(TSG_CLASS, 1), 0);
	cr_assert(!cuda_switches_had(&had));
	n = noting.n_memories;
	cr_assert(!cuda_switches_had(&had));
	cr_assert_eq(noting.n_memories, n);
	cr_assert_eq(noting.flushed, 0);
	noting.refuse = 0;
	cr_assert_eq(alloc(TSG_CLASS, 1), 0, "another context");
	note(6, (uint32_t)getpid(), 900000);
	(void)cuda_switches_had(&had);
	note(7, (uint32_t)getpid(), 910000);
	cr_assert(cuda_switches_had(&had));
	noting.refuse = 2;
	cr_assert(!cuda_switches_had(&had), "its client is gone");
	noting.head[1] = NOTED_MAX;
	noting.refuse = 0;
	cr_assert(!cuda_switches_had(&had));
}

/* A device that tells counts at least what its kernels take while others want it. */
DEVICE_TEST(device_rm, the_device_tells_who_had_it)
{
	uint64_t had;

	if (f->ops->had_ns && f->soft)
		cr_assert(f->ops->had_ns(f->dev, &had));
}

/* ---- host memory ---- */

/* Attributes for which libcuda 580 asks: 3 where it lies (26:25), 3 how it hangs together
 * (28:27). */
#define ASKED         0x3a000000u
#define PAGE_OF(attr) ((attr) >> 23 & 3)

/* A kernel that has pages of up to this size (0 to 3), and writes into what it is given
 * before it refuses. */
static struct {
	uint32_t most, page[4];
	int n, fails;
} kernel;

static long kernel_ioctl(int fd, unsigned long request, void *arg)
{
	uint32_t *a = arg, *p = NULL;
	uint32_t page;

	cr_assert_eq(fd, 7);
	cr_assert_lt(kernel.n, (int)ARRAY_SIZE(kernel.page));
	memcpy(&p, &a[4], sizeof(p));
	cr_assert_eq(a[2], 0xbeef);
	cr_assert_eq(p[6] & ~(3u << 23), ASKED);
	cr_assert_eq(a[_IOC_SIZE(request) == 48 ? 10 : 7], 0);
	page = kernel.page[kernel.n++] = PAGE_OF(p[6]);
	if (page <= kernel.most)
		return 0;
	a[2] = 0;
	p[6] = p[16] = 0;
	if (kernel.fails) {
		errno = ENOMEM;
		return -1;
	}
	a[_IOC_SIZE(request) == 48 ? 10 : 7] = NO_MEMORY;
	return 0;
}

static uint32_t host_alloc(unsigned long request, uint64_t size, uint32_t most)
{
	uint32_t params[32] = {[6] = ASKED},
		 arg[12] = {0xc11e, 0xde51ce, 0xbeef, MEMORY_CLASS};

	memcpy(&params[16], &size, sizeof(size));
	memcpy(&arg[4], &(void *){params}, sizeof(void *));
	kernel.most = most;
	kernel.n = 0;
	cr_assert_eq(ioctl(7, request, arg), 0);
	cr_assert_eq(arg[_IOC_SIZE(request) == 48 ? 10 : 7], 0);
	cr_assert_eq(params[16], (uint32_t)size);
	return PAGE_OF(params[6]);
}

static const unsigned long form[] = {RM_ALLOC, RM_ALLOC_OLD};

Test(device_rm, host_memory_is_had_in_the_largest_pages)
{
	cuda_rm_kernel = kernel_ioctl;
	cuda_hostpage_large(true);
	for (size_t i = 0; i < ARRAY_SIZE(form); i++) {
		cr_assert_eq(host_alloc(form[i], 8 * MIB, 3), 3);
		cr_assert_eq(kernel.n, 1);
		cr_assert_eq(cuda_hostpage_huge(), (i + 1) * 8 * MIB);
	}
}

/* Each case in a process of its own: what was refused is not tried again. */
static void refused(unsigned long request, int fails, uint32_t most)
{
	cuda_rm_kernel = kernel_ioctl;
	cuda_hostpage_large(true);
	kernel.fails = fails;
	cr_assert_eq(host_alloc(request, 8 * MIB, most), most);
	cr_assert_eq(kernel.n, most == 2 ? 2 : 3);
	cr_assert_eq(host_alloc(request, 8 * MIB, 3), most, "it is not tried again soon");
	cr_assert_eq(kernel.n, 1);
	cr_assert_eq(cuda_hostpage_huge(), 0);
}

Test(device_rm, smaller_pages_if_the_kernel_fails)
{
	refused(RM_ALLOC, 1, 2);
}

Test(device_rm, smaller_pages_if_the_manager_has_none)
{
	refused(RM_ALLOC, 0, 2);
}

Test(device_rm, the_usual_pages_if_the_kernel_fails)
{
	refused(RM_ALLOC_OLD, 1, 0);
}

Test(device_rm, the_usual_pages_if_the_manager_has_none)
{
	refused(RM_ALLOC_OLD, 0, 0);
}

Test(device_rm, only_what_is_said_to_be_lies_in_large_pages)
{
	cuda_rm_kernel = kernel_ioctl;
	cr_assert_eq(host_alloc(RM_ALLOC, 8 * MIB, 3), 0, "the library's own memory");
	cuda_hostpage_large(true);
	cr_assert_eq(host_alloc(RM_ALLOC, 3 * MIB, 3), 0, "no number of such pages");
	cr_assert_eq(host_alloc(RM_ALLOC, 0, 3), 0);
	cuda_hostpage_large(false);
	cr_assert_eq(host_alloc(RM_ALLOC, 8 * MIB, 3), 0);
	cr_assert_eq(cuda_hostpage_huge(), 0);
}

/* ---- host memory in pages that are there ---- */

#define RM_ALLOC_MEMORY _IOC(_IOC_READ | _IOC_WRITE, 'F', 0x27, 56)
#define PAGES_CLASS     0x71

/* A kernel that takes pages, with this status, by a device's file. */
static struct {
	uint32_t status, arg[14];
	int fd, n_pages, n_other;
} taker;

static long taker_ioctl(int fd, unsigned long request, void *arg)
{
	uint32_t *a = arg;

	if (request != RM_ALLOC_MEMORY) {
		taker.n_other++;
		return 0;
	}
	taker.fd = fd;
	taker.n_pages++;
	memcpy(taker.arg, a, sizeof(taker.arg));
	a[10] = taker.status;
	return 0;
}

static uint32_t ask_for(uint64_t size)
{
	uint32_t params[32] = {[6] = ASKED},
		 arg[12] = {0xc11e, 0xde51ce, 0xbeef, MEMORY_CLASS};

	memcpy(&params[16], &size, sizeof(size));
	memcpy(&arg[4], &(void *){params}, sizeof(void *));
	cr_assert_eq(ioctl(7, RM_ALLOC, arg), 0);
	cr_assert_eq(arg[2], 0xbeef, "the library's number for it");
	return arg[10];
}

Test(device_rm, host_memory_can_be_pages_of_this_process)
{
	uint32_t other[14] = {0};
	char pages[4096];
	uint64_t word;

	cuda_rm_kernel = taker_ioctl;
	cuda_userpage_begin(pages, 8 * MIB);
	cr_assert_eq(ask_for(8 * MIB), 0, "no device's file was seen yet");
	cr_assert(!cuda_userpage_end() && !cuda_userpage_ready());
	cr_assert_eq(ioctl(9, RM_ALLOC_MEMORY, other), 0);
	cr_assert(cuda_userpage_ready());
	taker.n_pages = taker.n_other = 0;

	cuda_userpage_begin(pages, 8 * MIB);
	cr_assert_eq(ask_for(6 * MIB), 0);
	cr_assert(taker.n_other == 1 && !taker.n_pages,
		  "another size is the library's own");
	cr_assert_eq(ask_for(8 * MIB), 0);
	cr_assert(taker.n_other == 1 && taker.n_pages == 1 && taker.fd == 9);
	cr_assert(taker.arg[0] == 0xc11e && taker.arg[1] == 0xde51ce &&
		  taker.arg[2] == 0xbeef && taker.arg[3] == PAGES_CLASS);
	memcpy(&word, &taker.arg[6], sizeof(word));
	cr_assert_eq(word, (uintptr_t)pages);
	memcpy(&word, &taker.arg[8], sizeof(word));
	cr_assert_eq(word, 8 * MIB - 1);
	cr_assert(cuda_userpage_end());
	cr_assert_eq(ask_for(8 * MIB), 0);
	cr_assert_eq(taker.n_pages, 1, "no more of them");

	taker.status = NO_MEMORY;
	cuda_userpage_begin(pages, 8 * MIB);
	cr_assert_eq(ask_for(8 * MIB), NO_MEMORY, "the kernel's answer");
	cr_assert(!cuda_userpage_end());
}

/* No memory at all: the answer is the kernel's. */
static long nothing_left(int fd, unsigned long request, void *arg)
{
	(void)fd;
	*cuda_rm_status(request, arg) = NO_MEMORY;
	kernel.n++;
	return 0;
}

Test(device_rm, host_memory_that_is_not_there_is_refused)
{
	uint32_t params[32] = {[6] = ASKED, [16] = 2 * MIB},
		 arg[12] = {[3] = MEMORY_CLASS};

	memcpy(&arg[4], &(void *){params}, sizeof(void *));
	cuda_rm_kernel = nothing_left;
	cuda_hostpage_large(true);
	cr_assert_eq(ioctl(7, RM_ALLOC, arg), 0);
	cr_assert_eq(arg[10], NO_MEMORY);
	cr_assert_eq(kernel.n, 3);
	cr_assert_eq(params[6], ASKED);
}

/* A machine may have no pages of 2 MiB left, but not one that runs only this. */
DEVICE_TEST(device_rm, host_memory_lies_in_huge_pages)
{
	uint64_t before = cuda_hostpage_huge();
	struct dev_mem *c;

	OK(f->ops->memory.create(f->dev, 8 * MIB, DEV_MEMORY_HOST, &c));
	cr_assert_eq(cuda_hostpage_huge() - before, f->soft ? 0 : 8 * MIB);
	f->ops->memory.release(f->dev, c);
}
