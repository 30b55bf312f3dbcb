/* SPDX-License-Identifier: Apache-2.0 */
/* Atomics of program and kernels on one word of managed memory, at once: none is lost. */
#include <fcntl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "check.h"

static const int THREADS = 64, EACH = 2000, OURS = 200000;

__global__ void add(unsigned *p, int times)
{
	for (int i = 0; i < times; i++)
		atomicAdd_system(p, 1);
}

/* Takes tickets until there are none; marks each in its place. */
__global__ void take(unsigned *next, unsigned *taken, unsigned n)
{
	for (unsigned i; (i = atomicAdd_system(next, 1)) < n;)
		atomicAdd_system(&taken[i], 1);
}

/* Waits for the program to say each number, and says it has seen it. */
__global__ void answer(unsigned *said, unsigned *seen, unsigned n)
{
	for (unsigned i = 1; i <= n; i++) {
		while (atomicAdd_system(said, 0) < i)
			;
		atomicExch_system(seen, i);
	}
}

static unsigned *managed(size_t bytes)
{
	unsigned *p = nullptr;

	CK(cudaMallocManaged(&p, bytes));
	for (size_t i = 0; i < bytes / sizeof(*p); i++)
		p[i] = 0;
	return p;
}

static unsigned ours(unsigned *p, unsigned by)
{
	return __atomic_fetch_add(p, by, __ATOMIC_SEQ_CST);
}

static void both_add(size_t bytes)
{
	unsigned *p = managed(bytes);

	for (int round = 1; round <= 3; round++) {
		add<<<2, THREADS / 2>>>(p, EACH);
		for (int i = 0; i < OURS; i++)
			ours(p, 1);
		CK(cudaDeviceSynchronize());
		REQUIRE(*p == unsigned(round * (THREADS * EACH + OURS)));
	}
	CK(cudaFree(p));
}

/* In two allocations, and by more than one thread of the program's. */
static void both_take_tickets()
{
	const unsigned n = 4 << 20 >> 2;
	unsigned *next = managed(sizeof(*next)), *taken = managed(n * sizeof(*taken));
	std::vector<std::thread> threads;

	take<<<2, THREADS / 2>>>(next, taken, n / 64);
	for (int k = 0; k < 2; k++)
		threads.emplace_back([=] {
			for (unsigned i; (i = ours(next, 1)) < n / 64;)
				ours(&taken[i], 1);
		});
	for (auto &t : threads)
		t.join();
	CK(cudaDeviceSynchronize());
	for (unsigned i = 0; i < n / 64; i++)
		REQUIRE(taken[i] == 1);
	CK(cudaFree(taken));
	CK(cudaFree(next));
}

static void they_talk()
{
	const unsigned n = 100;
	unsigned *said = managed(sizeof(*said)), *seen = managed(sizeof(*seen));

	answer<<<1, 1>>>(said, seen, n);
	for (unsigned i = 1; i <= n; i++) {
		ours(said, 1);
		while (ours(seen, 0) < i)
			;
	}
	CK(cudaDeviceSynchronize());
	CK(cudaFree(said));
	CK(cudaFree(seen));
}

/* Memory that the program has just now is freed, and used by the next launch. */
static void while_the_program_has_it()
{
	for (int i = 0; i < 5; i++) {
		unsigned *p = managed(4 << 20), *q = managed(4 << 20);

		add<<<1, 1>>>(p, 50000);
		ours(p, 1);
		add<<<1, 1>>>(q, 10);
		ours(p, 1);
		CK(cudaFree(q));
		CK(cudaDeviceSynchronize());
		REQUIRE(*p == 50002);
		CK(cudaFree(p));
	}
}

/* A kernel that waits is in nobody's way: what the next one shares with the program moves. */
static void beside_one_that_waits()
{
	unsigned *flag = managed(4 << 20), *p = managed(4 << 20);
	cudaStream_t one, other;

	CK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
	CK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	answer<<<1, 1, 0, one>>>(flag, flag + 1, 1);
	add<<<2, THREADS / 2, 0, other>>>(p, EACH);
	for (int i = 0; i < OURS; i++)
		ours(p, 1);
	CK(cudaStreamSynchronize(other));
	REQUIRE(*p == unsigned(THREADS * EACH + OURS));
	ours(flag, 1);
	CK(cudaStreamSynchronize(one));
	REQUIRE(flag[1] == 1);
	CK(cudaFree(flag));
	CK(cudaFree(p));
	CK(cudaStreamDestroy(one));
	CK(cudaStreamDestroy(other));
}

/* Elsewhere memory stays in the host's, and natively nothing of it is needed. */
static bool pages_can_be_closed()
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0)
		fd = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	return fd >= 0 && close(fd) == 0;
}

int main()
{
	int concurrent;

	check_name = "managed_atomics";
	CK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
	if (!concurrent || !pages_can_be_closed()) {
		printf("SKIP managed_atomics: %s\n",
		       concurrent ? "no userfaultfd" : "not at once with kernels");
		return 0;
	}
	both_add(sizeof(unsigned));
	both_add(16 << 20);
	both_take_tickets();
	they_talk();
	while_the_program_has_it();
	beside_one_that_waits();
	return pass();
}
