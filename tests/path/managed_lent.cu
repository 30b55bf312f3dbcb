/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory that the program only reads is lent: it stays on the device, and whatever changes
 * it there, or here, is seen. */
#include <atomic>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include "check.h"

static const size_t MIB = 1 << 20, BYTES = 20 * MIB, N = BYTES / sizeof(int);
static bool moves; /* nowhere else than where pages can be closed */
static bool lends; /* and be said to have been written */

__global__ void add(size_t n, int *p, int by)
{
	for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		p[i] += by;
}

__global__ void add_behind(size_t n, int **p, int by)
{
	for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		(*p)[i] += by;
}

__global__ void count(volatile int *p, int n)
{
	for (int i = 0; i < n; i++)
		*p += 1;
}

/* Whether the kernel lets a process know that a page was written, in system calls too. */
static bool says_writes()
{
	struct uffdio_api api = {};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	bool says;

	api.api = UFFD_API;
	api.features = UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_PAGEFAULT_FLAG_WP;
	says = fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0;
	close(fd);
	return says;
}

static size_t device_free()
{
	size_t free, total;

	CK(cudaMemGetInfo(&free, &total));
	return free;
}

static void run_add(int *p, int by, size_t n = N)
{
	add<<<64, 256>>>(n, p, by);
	CK(cudaDeviceSynchronize());
}

/* Some, all of which is value, and on the device, where that can be. */
struct there {
	size_t before = device_free();
	int *p = nullptr, value = 0;

	there()
	{
		CK(cudaMallocManaged(&p, BYTES));
		memset(p, 0, BYTES);
		back();
	}

	~there()
	{
		CK(cudaFree(p));
	}

	bool is() const
	{
		return device_free() + BYTES <= before;
	}

	/* A machine with much else to do may not be quiet in time at first. */
	void back()
	{
		for (int n = 0; n == 0 || (!is() && n < (moves ? 200 : 20)); n++) {
			usleep(n ? 50000 : 0);
			run_add(p, 1);
			value++;
		}
		moves |= is();
		REQUIRE(!moves || is());
	}

	/* Reads of it are lent, once the device is quiet in time, and find it as it is. */
	void is_lent(size_t at)
	{
		for (int n = 0;; n++) {
			REQUIRE(p[at] == value);
			if (!lends || is())
				return;
			REQUIRE(n < 100);
			back();
		}
	}
};

static void reads()
{
	there m;

	for (int round = 0; round < 20; round++) {
		m.is_lent(N / 2);
		m.is_lent(N - 1);
		run_add(m.p, 1);
		m.value++;
	}
}

static void writes()
{
	there m;

	m.is_lent(N / 2);
	REQUIRE(m.p[N / 2] == m.value);
	m.p[N / 2 + 1] = -5;
	m.p[N / 2 + 5000]++; /* another page of what was lent */
	REQUIRE(m.p[N / 2] == m.value && m.p[N / 2 + 1] == -5);
	run_add(m.p, 1);
	REQUIRE(m.p[N / 2] == m.value + 1 && m.p[N / 2 + 1] == -4);
	REQUIRE(m.p[N / 2 + 5000] == m.value + 2 && m.p[N - 1] == m.value + 1);
	REQUIRE(m.p[N / 2 - 1] == m.value + 1 && m.p[0] == m.value + 1);
}

/* Some programs read it all. */
static void in_order()
{
	there m;

	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < N; i += 97)
			REQUIRE(m.p[i] == m.value);
		for (size_t i = N; i > 97; i -= 97)
			REQUIRE(m.p[i - 1] == m.value);
		m.back();
	}
}

static void system_calls()
{
	int fd = memfd_create("managed", MFD_CLOEXEC);
	std::vector<int> plain(MIB / sizeof(int));
	there m;

	REQUIRE(fd >= 0);
	REQUIRE(write(fd, m.p + N / 2, 4096) == 4096);
	REQUIRE(pread(fd, plain.data(), 4096, 0) == 4096);
	REQUIRE(plain[0] == m.value && plain[1023] == m.value);
	m.is_lent(N / 2);
	plain.assign(plain.size(), 77);
	REQUIRE(pwrite(fd, plain.data(), MIB, 0) == (ssize_t)MIB);
	REQUIRE(pread(fd, m.p + N / 2, MIB, 0) == (ssize_t)MIB); /* into what is lent */
	REQUIRE(m.p[N / 2] == 77 && m.p[N / 2 + MIB / 4 - 1] == 77);
	REQUIRE(m.p[N / 2 - 1] == m.value && m.p[N / 2 + MIB / 4] == m.value);
	run_add(m.p, 1);
	REQUIRE(m.p[N / 2] == 78 && m.p[0] == m.value + 1);
	close(fd);
}

/* Copies, fills, graphs, and kernels that were given it by memory. */
static void all_that_writes()
{
	there m;
	int **behind, *plain;
	std::vector<int> here(N, 4);
	cudaStream_t s;
	cudaGraph_t g;
	cudaGraphExec_t x;

	CK(cudaMalloc(&behind, sizeof(*behind)));
	CK(cudaMemcpy(behind, &m.p, sizeof(m.p), cudaMemcpyHostToDevice));
	CK(cudaMalloc(&plain, BYTES));
	CK(cudaMemset(plain, 3, BYTES));
	CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	add<<<64, 256, 0, s>>>(N, m.p, 1);
	CK(cudaStreamEndCapture(s, &g));
	CK(cudaGraphInstantiate(&x, g, 0));
	for (int round = 0; round < 3; round++) {
		m.is_lent(N / 3);
		add_behind<<<64, 256, 0, s>>>(N, behind, 1);
		CK(cudaStreamSynchronize(s));
		m.value++;
		m.is_lent(N / 3);
		CK(cudaGraphLaunch(x, s));
		CK(cudaStreamSynchronize(s));
		m.value++;
		m.is_lent(N / 3);
		CK(cudaMemcpyAsync(m.p, here.data(), BYTES, cudaMemcpyDefault, s));
		CK(cudaStreamSynchronize(s));
		m.value = 4;
		m.is_lent(N / 3);
		CK(cudaMemcpy(m.p, plain, BYTES, cudaMemcpyDefault));
		m.value = 0x03030303;
		m.is_lent(N / 3);
		CK(cudaMemset(m.p, 0, BYTES));
		CK(cudaDeviceSynchronize());
		m.value = 0;
		m.is_lent(N / 3);
	}
	CK(cudaGraphExecDestroy(x));
	CK(cudaGraphDestroy(g));
	CK(cudaStreamDestroy(s));
	CK(cudaFree(behind));
	CK(cudaFree(plain));
}

/* One thread reads on, while another has kernels change it: it sees each change once, in order. */
static void beside_kernels()
{
	there m;
	std::atomic<int> done{0}, least{m.value};
	std::thread reader([&] {
		int last = m.value;

		while (!done) {
			int must = least, is = *(volatile int *)&m.p[N / 2];

			REQUIRE(is >= must && is >= last);
			last = is;
		}
	});

	for (int round = 0; round < 60; round++) {
		run_add(m.p, 1);
		least = ++m.value;
		usleep(round % 4 * 1000);
	}
	done = 1;
	reader.join();
	REQUIRE(m.p[N / 2] == m.value);
}

/* A kernel that was launched before the read, and goes on. */
static void behind_a_kernel()
{
	there m;
	int was, is;

	for (int round = 0; round < 4; round++) {
		count<<<1, 1>>>(m.p + N / 2, 1000 << (4 * round));
		was = *(volatile int *)&m.p[N / 2];
		REQUIRE(was >= m.value);
		CK(cudaDeviceSynchronize());
		is = m.p[N / 2];
		REQUIRE(is == m.value + (1000 << (4 * round)) && is >= was);
		m.p[N / 2] = m.value;
		m.back();
	}
}

/* All of it can be read where the program has said that it does so. */
static void read_mostly()
{
	there m;
	size_t n = 16 * MIB / sizeof(int);
	int times = 0;

	CK(cudaMemAdvise(m.p, BYTES, cudaMemAdviseSetReadMostly, {cudaMemLocationTypeDevice, 0}));
	for (int round = 0; round < 4; round++) {
		for (size_t i = 0; i < n; i += 331)
			REQUIRE(m.p[i] == m.value);
		times += m.is();
		m.back();
	}
	REQUIRE(!lends || times > 0);
	m.p[5] = 9;
	REQUIRE(m.p[5] == 9 && m.p[6] == m.value);
	m.back();
	REQUIRE(m.p[6] == m.value);
	CK(cudaMemAdvise(m.p, BYTES, cudaMemAdviseUnsetReadMostly,
			 {cudaMemLocationTypeDevice, 0}));
	for (size_t i = 0; i < n; i += 331)
		REQUIRE(m.p[i] == m.value || i == 5);
}

/* Memory that is lent may be freed, and what takes its place is another's. */
static void freed()
{
	for (int round = 0; round < 10; round++) {
		there m;

		m.is_lent(N / 2);
		m.is_lent(0);
	}
}

int main(void)
{
	check_name = "managed_lent";
	{
		there m;

		lends = moves && says_writes();
		printf("moves %d, lends %d\n", moves, lends);
	}
	reads();
	writes();
	in_order();
	system_calls();
	all_that_writes();
	beside_kernels();
	behind_a_kernel();
	read_mostly();
	freed();
	return pass();
}
