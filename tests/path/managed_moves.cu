/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory large enough to move: it is on the device while kernels use it, and back when
 * the program touches it, whoever does so and however. */
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "check.h"

static const size_t MIB = 1 << 20, BYTES = 40 * MIB, N = BYTES / sizeof(int);
/* More than the software device has, and no more than a machine has. */
static const size_t MANY = 8192 * MIB / BYTES;
static bool moves; /* nowhere else than where pages can be closed */
/* Kernels read what is the program's. Without a window they cannot: all of it is carried to the
 * device, where it has room from the beginning, before they run. */
static bool concurrent;

__global__ void add(size_t n, int *p, int by)
{
	for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		p[i] += by;
}

__global__ void wait_for(volatile int *flag, int *p)
{
	while (!*flag)
		;
	*p += 1;
}

static int *managed(size_t bytes, int value = 0)
{
	int *p = nullptr;

	CK(cudaMallocManaged(&p, bytes));
	for (size_t i = 0; i < bytes / sizeof(int); i++)
		p[i] = value;
	return p;
}

static size_t device_free()
{
	size_t free, total;

	CK(cudaMemGetInfo(&free, &total));
	return free;
}

/* Whether the device has nothing of it, where it needs to have nothing. */
static bool is_host_s(size_t before)
{
	return !concurrent || device_free() + MIB > before;
}

/* Without looking: what looks brings it back. */
static void run_add(int *p, int by, size_t n = N)
{
	add<<<64, 256>>>(n, p, by);
	CK(cudaDeviceSynchronize());
}

static void all_are(const int *p, int value, size_t n = N)
{
	for (size_t i = 0; i < n; i += 331)
		REQUIRE(p[i] == value);
	REQUIRE(p[n - 1] == value);
}

/* Launches until all of p is on the device, for a while: a machine with much else to do may not
 * be quiet in time at first. Returns how often. */
static int add_there(int *p, size_t before)
{
	for (int n = 1;; n++) {
		run_add(p, 1);
		if (device_free() + BYTES <= before)
			moves = true;
		else if (n < (moves ? 200 : 20) && usleep(50000) == 0)
			continue;
		else
			REQUIRE(!moves);
		return n;
	}
}

static void to_and_fro()
{
	size_t before = device_free();
	int *p = managed(BYTES, 1), value = 1;

	REQUIRE(is_host_s(before));
	for (int round = 0; round < 3; round++) {
		value += add_there(p, before);
		run_add(p, 1);
		all_are(p, ++value);
		REQUIRE(is_host_s(before));
		for (size_t i = 0; i < N; i++)
			p[i] += 1;
		value++;
	}
	run_add(p, 1);
	CK(cudaFree(p)); /* from the device, too */
	REQUIRE(device_free() + MIB > before);
}

/* Only the parts that are touched come back. */
static void parts()
{
	size_t before = device_free();
	int *p = managed(BYTES, 1);

	int value = 1 + add_there(p, before);

	REQUIRE(p[N - 1] == value);
	p[N - 1] = -7;
	REQUIRE(!moves || device_free() + MIB < before);
	run_add(p, 1);
	REQUIRE(p[N - 1] == -6 && p[0] == value + 1 && p[N / 2] == value + 1);
	CK(cudaFree(p));
}

static void prefetching()
{
	cudaMemLocation device = {cudaMemLocationTypeDevice, 0},
			host = {cudaMemLocationTypeHost, 0};
	size_t before = device_free();
	int *p = managed(BYTES, 5);

	for (int n = 0; n == 0 || (moves && device_free() + BYTES > before); n++) {
		REQUIRE(n < 200 && usleep(n ? 50000 : 0) == 0);
		CK(cudaMemPrefetchAsync(p, BYTES, device, 0, nullptr));
		CK(cudaDeviceSynchronize());
	}
	run_add(p, 1);
	for (int n = 0; n == 0 || !is_host_s(before); n++) {
		REQUIRE(n < 200 && usleep(n ? 50000 : 0) == 0);
		CK(cudaMemPrefetchAsync(p, BYTES, host, 0, nullptr));
		CK(cudaDeviceSynchronize());
	}
	all_are(p, 6);
	/* Memory that is preferred on the host stays there, and kernels find it. */
	CK(cudaMemAdvise(p, BYTES, cudaMemAdviseSetPreferredLocation, host));
	run_add(p, 1);
	REQUIRE(is_host_s(before));
	all_are(p, 7);
	CK(cudaFree(p));
}

/* Copies and fills find it on either side, and the program what they wrote. */
static void copies()
{
	std::vector<int> plain(N, 9);
	int *p = managed(BYTES, 1), *q = managed(BYTES, 2), *device;

	CK(cudaMalloc(&device, BYTES));
	run_add(p, 1);
	CK(cudaMemcpy(device, p, BYTES, cudaMemcpyDefault));
	CK(cudaMemcpy(q, device, BYTES, cudaMemcpyDefault));
	all_are(q, 2);
	run_add(q, 1);
	CK(cudaMemcpy(q, plain.data(), BYTES, cudaMemcpyHostToDevice));
	all_are(q, 9);
	run_add(q, 1);
	CK(cudaMemcpy(p, q, BYTES, cudaMemcpyDeviceToDevice));
	all_are(p, 10);
	run_add(p, 1);
	CK(cudaMemcpy(plain.data(), p, BYTES, cudaMemcpyDeviceToHost));
	all_are(plain.data(), 11);
	CK(cudaMemset(p, 0, BYTES));
	CK(cudaDeviceSynchronize());
	all_are(p, 0);
	CK(cudaFree(p));
	CK(cudaFree(q));
	CK(cudaFree(device));
}

/* Copies and fills that do not say Async are over when they return: the program sees at once
 * what is in host memory, and may write there. */
static void behind_a_kernel()
{
	cudaMemLocation host = {cudaMemLocationTypeHost, 0};
	std::vector<int> plain(N, 9);
	int *flag = managed(64), *sum = managed(64), *p = managed(BYTES, 1), *device;

	CK(cudaMalloc(&device, BYTES));
	CK(cudaMemset(device, 0, BYTES));
	CK(cudaMemAdvise(p, BYTES, cudaMemAdviseSetPreferredLocation, host));
	for (int way = 0; way < 4; way++) {
		*flag = 0;
		/* There the program has it back from under the kernel. */
		CK(cudaMemPrefetchAsync(flag, 64, {cudaMemLocationTypeDevice, 0}, 0, 0));
		wait_for<<<1, 1>>>(flag, sum);
		std::thread later([=] {
			usleep(20000);
			*(volatile int *)flag = 1;
		});
		if (way == 0)
			CK(cudaMemcpy(p, device, BYTES, cudaMemcpyDeviceToDevice));
		else if (way == 1)
			CK(cudaMemcpy(p, plain.data(), MIB / 8, cudaMemcpyHostToDevice));
		else if (way == 2)
			CK(cudaMemcpy(p, plain.data(), BYTES, cudaMemcpyHostToDevice));
		else
			CK(cudaMemset(p, 0, BYTES));
		REQUIRE(p[0] == (way % 3 ? 9 : 0));
		REQUIRE(p[MIB / 8 / sizeof(int) - 1] == (way % 3 ? 9 : 0));
		later.join();
		CK(cudaDeviceSynchronize());
	}
	CK(cudaFree(device));
	for (int *m : {flag, sum, p})
		CK(cudaFree(m));
}

static void questions()
{
	int *p = managed(BYTES, 0);

	for (int round = 0; round < 2; round++) {
		cudaPointerAttributes a;
		cudaIpcMemHandle_t ipc;

		CK(cudaPointerGetAttributes(&a, p + 5));
		REQUIRE(a.type == cudaMemoryTypeManaged && a.device == 0);
		REQUIRE(a.hostPointer == p + 5 && a.devicePointer == p + 5);
		REQUIRE(cudaIpcGetMemHandle(&ipc, p) != cudaSuccess);
		REQUIRE(cudaHostRegister(p, BYTES, 0) != cudaSuccess);
		EXPECT(cudaFreeHost(p), cudaErrorInvalidValue);
		(void)cudaGetLastError();
		run_add(p, 1);
	}
	CK(cudaFree(p));
}

/* A graph's kernels name it, too. */
static void graphs()
{
	size_t before = device_free();
	int *p = managed(BYTES, 1), value = 1;
	cudaStream_t s;
	cudaGraph_t g;
	cudaGraphExec_t x;

	CK(cudaStreamCreate(&s));
	CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	add<<<64, 256, 0, s>>>(N, p, 1);
	CK(cudaStreamEndCapture(s, &g));
	CK(cudaGraphInstantiate(&x, g, 0));
	for (int round = 0; round < 3; round++) {
		for (int n = 0; n == 0 || (moves && device_free() + BYTES > before); n++) {
			REQUIRE(n < 200 && usleep(n ? 50000 : 0) == 0);
			CK(cudaGraphLaunch(x, s));
			CK(cudaStreamSynchronize(s));
			value++;
		}
		all_are(p, value);
	}
	CK(cudaGraphExecDestroy(x));
	CK(cudaGraphDestroy(g));
	CK(cudaStreamDestroy(s));
	CK(cudaFree(p));
}

/* The kernel touches closed pages in the program's name. */
static void system_calls()
{
	int *p = managed(BYTES, 3), fd = memfd_create("managed", MFD_CLOEXEC);

	REQUIRE(fd >= 0);
	run_add(p, 1);
	REQUIRE(write(fd, p + N / 2, MIB) == (ssize_t)MIB);
	run_add(p, 1);
	REQUIRE(pread(fd, p, MIB, 0) == (ssize_t)MIB); /* fours over fives */
	REQUIRE(p[0] == 4 && p[MIB / sizeof(int)] == 5);
	run_add(p, 1);
	REQUIRE(p[0] == 5 && p[MIB / sizeof(int)] == 6);
	close(fd);
	CK(cudaFree(p));
}

static void threads()
{
	int *p = managed(BYTES, 0);

	for (int round = 1; round <= 5; round++) {
		std::vector<std::thread> all;

		run_add(p, 1);
		for (int k = 0; k < 8; k++) {
			all.emplace_back([=] {
				REQUIRE(p[k] == round); /* one page */
				all_are(p + N / 8 * k, round, N / 8);
			});
		}
		for (auto &t : all)
			t.join();
	}
	CK(cudaFree(p));
}

/* Threads that launch and touch at once, each its own, in one allocation and in several. */
static void at_once()
{
	std::vector<std::thread> all;

	for (int k = 0; k < 4; k++) {
		all.emplace_back([k] {
			int *p = managed(3 * MIB, k);
			cudaStream_t s;

			CK(cudaStreamCreate(&s));
			for (int round = 1; round <= 20; round++) {
				add<<<4, 256, 0, s>>>(3 * MIB / sizeof(int), p, 1);
				CK(cudaStreamSynchronize(s));
				all_are(p, k + round, 3 * MIB / sizeof(int));
			}
			CK(cudaStreamDestroy(s));
			CK(cudaFree(p));
		});
	}
	for (auto &t : all)
		t.join();
}

static sigjmp_buf out;
static void *at;

static void on_segv(int, siginfo_t *info, void *)
{
	at = info->si_addr;
	siglongjmp(out, 1);
}

/* The program's own handler hears of what is wrong, and of nothing else. */
static void signals()
{
	struct sigaction sa = {}, before;
	int *p = managed(BYTES, 1);

	sa.sa_sigaction = on_segv;
	sa.sa_flags = SA_SIGINFO | SA_NODEFER;
	REQUIRE(sigaction(SIGSEGV, &sa, &before) == 0);
	run_add(p, 1);
	if (!sigsetjmp(out, 1)) {
		all_are(p, 2);
		run_add(p, 1);
	} else {
		REQUIRE(!"a signal");
	}
	CK(cudaFree(p));
	at = nullptr;
	if (!sigsetjmp(out, 1)) {
		*(volatile int *)p = 1;
		REQUIRE(!"nobody's memory");
	}
	REQUIRE(at == p);
	sigaction(SIGSEGV, &before, nullptr);
}

static int *ticking;

static void on_tick(int)
{
	(void)*(volatile int *)&ticking[N / 2];
}

/* Handlers of the program's touch it at any time, also while it moves. */
static void ticks()
{
	itimerval every = {{0, 700}, {0, 700}}, never = {};
	struct sigaction sa = {}, before;
	int *p = ticking = managed(BYTES, 1);

	sa.sa_handler = on_tick;
	sa.sa_flags = SA_RESTART;
	REQUIRE(sigaction(SIGALRM, &sa, &before) == 0);
	REQUIRE(setitimer(ITIMER_REAL, &every, nullptr) == 0);
	for (int round = 1; round <= 30; round++) {
		run_add(p, 1, MIB);
		REQUIRE(p[0] == 1 + round);
	}
	REQUIRE(setitimer(ITIMER_REAL, &never, nullptr) == 0);
	sigaction(SIGALRM, &before, nullptr);
	CK(cudaFree(p));
}

/* A child has none of what moves, as with the real driver, and leaves it alone. */
static void forks()
{
	int *p = managed(BYTES, 1), status;
	pid_t child;

	run_add(p, 1);
	child = fork();
	if (!child) {
		signal(SIGSEGV, SIG_DFL);
		(void)*(volatile int *)p;
		_exit(0);
	}
	REQUIRE(waitpid(child, &status, 0) == child);
	REQUIRE(!moves || (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV));
	all_are(p, 2);
	CK(cudaFree(p));
}

/* A kernel that waits for the program: what they tell each other of is small. */
static void polling()
{
	int *flag = managed(64), *sum = managed(64), *p = managed(BYTES, 1);

	run_add(p, 1);
	wait_for<<<1, 1>>>(flag, sum);
	REQUIRE(*(volatile int *)sum == 0);
	*(volatile int *)flag = 1;
	CK(cudaDeviceSynchronize());
	REQUIRE(*sum == 1);
	CK(cudaFree(flag));
	CK(cudaFree(sum));
	CK(cudaFree(p));
}

/* Prefetching and launching do not wait for a kernel that waits for the program. */
static void latches()
{
	cudaMemLocation device = {cudaMemLocationTypeDevice, 0},
			host = {cudaMemLocationTypeHost, 0};
	int *flag = managed(64), *sum = managed(64), *p = managed(BYTES, 1),
	    *q = managed(BYTES / 4, 1);
	cudaStream_t s;

	CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	run_add(q, 1, N / 4);
	wait_for<<<1, 1, 0, s>>>(flag, sum);
	CK(cudaMemPrefetchAsync(p, BYTES, device, 0, s));
	add<<<64, 256, 0, s>>>(N, p, 1);
	CK(cudaMemPrefetchAsync(q, BYTES / 4, host, 0, s));
	*(volatile int *)flag = 1;
	CK(cudaStreamSynchronize(s));
	all_are(p, 2);
	all_are(q, 2, N / 4);
	CK(cudaStreamDestroy(s));
	for (int *m : {flag, sum, p, q})
		CK(cudaFree(m));
}

/* Allocations of less than a page of the device's move when several launches in a row have used
 * them, and go on being what they are. */
static void small_ones()
{
	static const size_t sizes[] = {5000, 100 << 10, 700 << 10, 1900 << 10, 100 << 10};
	size_t before = device_free();
	std::vector<int *> all;
	int value = 1;

	for (size_t size : sizes)
		all.push_back(managed(size, value));
	REQUIRE(is_host_s(before));
	for (int n = 0; n < 8 || (moves && device_free() + 2 * MIB > before); n++) {
		REQUIRE(n < 200 && usleep(n < 8 ? 0 : 50000) == 0);
		for (size_t i = 0; i < all.size(); i++)
			run_add(all[i], 1, sizes[i] / sizeof(int));
		value++;
	}
	for (int round = 0; round < 100; round++) {
		for (size_t i = 0; i < all.size(); i++) {
			all_are(all[i], value, sizes[i] / sizeof(int));
			all[i][1]--;
			run_add(all[i], 1, sizes[i] / sizeof(int));
			all[i][1]++;
			run_add(all[i], -1, sizes[i] / sizeof(int));
		}
	}
	for (size_t i = 0; i < all.size(); i++) {
		cudaPointerAttributes a;

		CK(cudaPointerGetAttributes(&a, all[i] + 5));
		REQUIRE(a.type == cudaMemoryTypeManaged && a.devicePointer == all[i] + 5);
		EXPECT(cudaFree(all[i] + 64), cudaErrorInvalidValue);
		(void)cudaGetLastError();
		run_add(all[i], 1, sizes[i] / sizeof(int));
		CK(cudaFree(all[i]));
	}
	REQUIRE(is_host_s(before));
}

/* A kernel that waits for what the program writes into one of these. */
static void small_flags()
{
	int *flag = managed(100 << 10), *sum = managed(200 << 10);

	for (int round = 1; round <= 40; round++) {
		*(volatile int *)flag = 0;
		wait_for<<<1, 1>>>(flag, sum);
		*(volatile int *)flag = 1;
		CK(cudaDeviceSynchronize());
		REQUIRE(*sum == round);
	}
	CK(cudaFree(flag));
	CK(cudaFree(sum));
}

/* Threads whose allocations are neighbours. */
static void small_at_once()
{
	std::vector<std::thread> all;

	for (int k = 0; k < 4; k++) {
		all.emplace_back([k] {
			static const size_t size = 90 << 10;
			int *p = managed(size, k);
			cudaStream_t s;

			CK(cudaStreamCreate(&s));
			for (int round = 1; round <= 200; round++) {
				add<<<4, 256, 0, s>>>(size / sizeof(int), p, 1);
				if (round % (7 * (k + 1)))
					continue;
				CK(cudaStreamSynchronize(s));
				all_are(p, k + round, size / sizeof(int));
			}
			CK(cudaStreamDestroy(s));
			CK(cudaFree(p));
		});
	}
	for (auto &t : all)
		t.join();
}

__global__ void answer(volatile int *asked, volatile int *answered, int times)
{
	for (int i = 1; i <= times; i++) {
		while (*asked < i)
			;
		*answered = 3 * i;
	}
}

/* A kernel and the program talk to each other in memory that is the device's by then, others run
 * beside it, and all find what the others wrote before. */
static void talking()
{
	size_t before = device_free();
	int *p = managed(BYTES, 0), *flag = p + N / 2, value = 0;
	cudaStream_t s, beside;

	CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	CK(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
	for (int round = 0; round < 3; round++) {
		value += add_there(p, before);
		for (int *zero : {flag, flag + 1000})
			CK(cudaMemset(zero, 0, sizeof(int)));
		answer<<<1, 1, 0, s>>>(flag, flag + 1000, 20);
		for (int i = 1; i <= 20; i++) {
			*(volatile int *)flag = i;
			while (*(volatile int *)(flag + 1000) != 3 * i)
				usleep(10);
			if (i % 5)
				continue;
			flag[2000] = 100 * i;
			add<<<4, 256, 0, beside>>>(1, flag + 2000, 7);
			CK(cudaStreamSynchronize(beside));
			REQUIRE(flag[2000] == 100 * i + 7);
			CK(cudaMemcpy(flag + 2000, &i, sizeof(i), cudaMemcpyDefault));
			REQUIRE(flag[2000] == i);
		}
		CK(cudaStreamSynchronize(s));
		all_are(p, value, MIB / sizeof(int));
	}
	/* One that is freed meanwhile: that waits. */
	for (int *m : {flag, p})
		CK(cudaMemset(m, 0, sizeof(int)));
	add_there(p, before);
	CK(cudaMemset(flag, 0, sizeof(int)));
	wait_for<<<1, 1, 0, s>>>(flag, p);
	*flag = 1;
	CK(cudaFree(p));
	CK(cudaStreamSynchronize(s));
	CK(cudaStreamDestroy(beside));
	CK(cudaStreamDestroy(s));
}

/* As behind_a_kernel(), but what the kernel waits for is on the device. */
static void behind_a_talking_kernel()
{
	size_t before = device_free();
	std::vector<int> plain(N, 9);
	int *p = managed(BYTES, 0), *flag = p + N / 2, *device, value = 0;
	cudaStream_t s;

	CK(cudaMalloc(&device, BYTES));
	CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	for (int way = 0; way < 5; way++) {
		value += add_there(p, before - BYTES);
		CK(cudaMemset(flag, 0, 2 * sizeof(int)));
		wait_for<<<1, 1, 0, s>>>(flag, flag + 1);
		std::thread later([=] {
			usleep(20000);
			*(volatile int *)flag = 1;
		});
		if (way == 0)
			CK(cudaMemcpyAsync(device, plain.data(), MIB / 8, cudaMemcpyDefault, s));
		else if (way == 1)
			CK(cudaMemcpyAsync(device, plain.data(), BYTES, cudaMemcpyDefault, s));
		else if (way == 2)
			CK(cudaMemcpyAsync(plain.data(), device, BYTES, cudaMemcpyDefault, s));
		else if (way == 3)
			CK(cudaMemsetAsync(device, 0, BYTES, s));
		else
			CK(cudaMemcpyAsync(device, device + N / 2, BYTES / 2, cudaMemcpyDefault, s));
		later.join();
		CK(cudaStreamSynchronize(s));
		REQUIRE(flag[1] == 1);
		all_are(p, value, MIB / sizeof(int));
		flag[0] = flag[1] = value;
	}
	CK(cudaStreamDestroy(s));
	CK(cudaFree(device));
	CK(cudaFree(p));
}

/* Freeing waits for kernels; all there is can be had and given back; advice of the program's to
 * the kernel takes nothing away. */
static void the_end_of_it()
{
	size_t before = device_free();
	std::vector<int *> all;
	int *p = managed(BYTES, 1);

	add<<<64, 256>>>(N, p, 1);
	CK(cudaFree(p));
	CK(cudaDeviceSynchronize());
	REQUIRE(device_free() + MIB > before);
	while (all.size() < MANY && cudaMallocManaged(&p, BYTES) == cudaSuccess)
		all.push_back(p);
	REQUIRE(all.size() == MANY || cudaGetLastError() == cudaErrorMemoryAllocation);
	for (int *m : all)
		CK(cudaFree(m));
	p = managed(BYTES, 1);
	for (int advice : {MADV_DONTNEED, MADV_WILLNEED, MADV_SEQUENTIAL}) {
		run_add(p, 1);
		madvise(p, BYTES, advice);
		run_add(p, 1);
	}
	all_are(p, 7);
	madvise(p, BYTES, MADV_DONTNEED); /* shared memory stays, other is empty */
	all_are(p, concurrent ? 7 : 0);
	CK(cudaFree(p));
}

int main()
{
	int v;

	check_name = "managed_moves";
	CK(cudaDeviceGetAttribute(&v, cudaDevAttrManagedMemory, 0));
	if (!v) {
		printf("no managed memory here\n");
		return pass();
	}
	CK(cudaFree(nullptr));
	CK(cudaDeviceGetAttribute(&v, cudaDevAttrConcurrentManagedAccess, 0));
	concurrent = v;
	to_and_fro();
	printf("%s\n", moves ? "moves" : "stays in host memory");
	parts();
	prefetching();
	copies();
	if (concurrent)
		behind_a_kernel();
	questions();
	graphs();
	system_calls();
	threads();
	at_once();
	signals();
	ticks();
	forks();
	if (concurrent) {
		polling();
		latches();
		small_flags();
		talking();
		behind_a_talking_kernel();
	}
	small_ones();
	small_at_once();
	the_end_of_it();
	return pass();
}
