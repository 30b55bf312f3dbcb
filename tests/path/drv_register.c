/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registering memory and the opposite lose nothing that other threads store meanwhile, to
 * the memory or beside it in the same pages, and change nothing that anybody reads.
 */
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver.h"

#define ROUNDS  60
#define WRITERS 2
#define WORDS   (1u << 18) /* for each writer */
/* Begins and ends inside of a page. */
#define BESIDE 100u

static _Atomic int stop;

/* Counts up in words of its own, all over them, and looks that each still has what was
 * last stored there. */
static void *writer(void *arg)
{
	volatile uint64_t *words = arg;
	uint64_t *last = calloc(WORDS, sizeof(*last)), v = 0;
	uint32_t i = 1;

	REQUIRE(last);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		i = (i * 1103515245u + 12345u) % WORDS;
		if (words[i] != last[i])
			fail("word %u is %llu instead of %llu", i,
			     (unsigned long long)words[i], (unsigned long long)last[i]);
		words[i] = last[i] = ++v;
	}
	for (i = 0; i < WORDS; i++)
		REQUIRE(words[i] == last[i]);
	free(last);
	return NULL;
}

/* Where the kernel has no userfaultfd for the program, memory of programs with threads is
 * not mapped. */
static int may_be_mapped(void)
{
	int fd = (int)syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY);

	if (fd < 0) {
		printf("no userfaultfd: registered memory is not mapped\n");
		return 0;
	}
	close(fd);
	return 1;
}

/* Checks that the device and the program have the same in the memory. */
static void same_on_device(const uint64_t *at, size_t n, CUdeviceptr dev, uint64_t *room)
{
	CK(cuMemcpyDtoH(room, dev, n * sizeof(*at)));
	for (size_t i = 0; i < n; i++)
		REQUIRE(room[i] == at[i]);
}

/*
 * Memory that is registered again and again gets its own pages back each time: no page is
 * made or found anew, which is most of what the calls would cost.
 */
static void same_pages(char *at, size_t size, int threads)
{
	struct rusage before, after;
	const int rounds = 32;

	memset(at, 1, size);
	for (int i = -1; i < rounds; i++) {
		if (i == 0) /* the first round made what is kept */
			REQUIRE(!getrusage(RUSAGE_SELF, &before));
		CK(cuMemHostRegister(at, size, 0));
		at[0]++;
		CK(cuMemHostUnregister(at));
	}
	REQUIRE(!getrusage(RUSAGE_SELF, &after));
	/* Older kernels (6.1) let a page that was protected be written only by a fault. */
	if ((after.ru_minflt - before.ru_minflt) / rounds >
	    (long)(size / 4096 / 8 + (threads ? size / 4096 : 0)))
		fail("%ld faults in %d rounds%s", after.ru_minflt - before.ru_minflt,
		     rounds, threads ? ", among threads" : "");
	REQUIRE(at[0] == 1 + 1 + rounds && at[size - 1] == 1);
}

int main(void)
{
	size_t size = (size_t)WRITERS * WORDS * sizeof(uint64_t);
	int mapped = may_be_mapped();
	pthread_t threads[WRITERS];
	uint64_t *words, *room;
	CUdeviceptr dev;
	CUcontext ctx;

	check_name = "drv_register";
	CK(cuInit(0));
	CK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CK(cuCtxSetCurrent(ctx));
	room = malloc(size);
	words = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	REQUIRE(room && words != MAP_FAILED);
	same_pages((char *)words, 1 << 20, 0);
	memset(words, 0, size);
	for (int i = 0; i < WRITERS; i++)
		REQUIRE(!pthread_create(&threads[i], NULL, writer, words + i * WORDS));
	for (int i = 0; i < ROUNDS; i++) {
		/* All of it, and parts of pages that the writers have the rest of. */
		size_t beside = i % 2 ? BESIDE : 0;
		void *at = words + beside;
		CUresult r;

		CK(cuMemHostRegister(at, size - 2 * beside * sizeof(*words),
				     CU_MEMHOSTREGISTER_DEVICEMAP));
		r = cuMemHostGetDevicePointer(&dev, at, 0);
		REQUIRE(r == (mapped ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED));
		usleep(1000);
		CK(cuMemHostUnregister(at));
		usleep(1000);
	}
	CK(cuMemHostRegister(words, size, CU_MEMHOSTREGISTER_DEVICEMAP));
	atomic_store(&stop, 1);
	for (int i = 0; i < WRITERS; i++)
		REQUIRE(!pthread_join(threads[i], NULL));
	if (mapped) {
		CK(cuMemHostGetDevicePointer(&dev, words, 0));
		same_on_device(words, WRITERS * WORDS, dev, room);
		CK(cuMemsetD8(dev, 7, size));
	}
	CK(cuMemHostUnregister(words));
	for (size_t i = 0; mapped && i < WRITERS * WORDS; i++)
		REQUIRE(words[i] == 0x0707070707070707u);
	if (mapped) /* glibc may count itself alone again, the kernel knows better */
		same_pages((char *)words, 1 << 20, 1);
	return pass();
}
