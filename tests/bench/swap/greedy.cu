/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant that wants memory, block by block, and works on what it has all the time.
 *
 *	greedy KIB BLOCK-KIB [PAUSE-MS [one]]
 *
 * allocates blocks until it has KIB, or is refused, working PAUSE-MS after each (0), then
 * works until its input ends; a round adds to every word of all blocks, or with
 * "one" of the first only. In the end every word must be what the rounds made of it.
 * Prints, times in nanoseconds of CLOCK_MONOTONIC:
 *
 *	ready FREE		the context is there; bytes free
 *	alloc START TOOK	for each block
 *	refused BYTES		what was not there any more
 *	full BYTES		has all it will get
 *	round COUNT MEDIAN	how many, and how long
 *	gap START TOOK		each that took longer than twice that and 0.1 ms
 *	PASS greedy		or FAIL greedy: why
 */
#include <algorithm>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "../../path/check.h"

#define BLOCK  256
#define LONGER 100000   /* ns */
#define ROUNDS 10000000 /* that are remembered */

struct block {
	uint32_t *p;
	uint32_t base; /* of its values: grows by one a round */
};

struct span {
	uint64_t start, took;
};

static uint64_t now_ns()
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool input_ended()
{
	struct pollfd p = {STDIN_FILENO, POLLIN, 0};
	char c;

	return poll(&p, 1, 0) > 0 && read(STDIN_FILENO, &c, 1) <= 0;
}

__global__ void fill(uint32_t *p, size_t n, uint32_t seed)
{
	for (size_t i = blockIdx.x * (size_t)BLOCK + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * BLOCK)
		p[i] = seed + (uint32_t)i * 2654435761u;
}

__global__ void add(uint32_t *p, size_t n)
{
	for (size_t i = blockIdx.x * (size_t)BLOCK + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * BLOCK)
		p[i]++;
}

/* Counts the words that are not what they should be. */
__global__ void count_wrong(const uint32_t *p, size_t n, uint32_t seed, unsigned *wrong)
{
	for (size_t i = blockIdx.x * (size_t)BLOCK + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * BLOCK)
		if (p[i] != seed + (uint32_t)i * 2654435761u)
			atomicAdd(wrong, 1u);
}

struct tenant {
	std::vector<block> blocks;
	std::vector<span> rounds;
	size_t words;
	unsigned blocks_of_a_round, grid;

	void work()
	{
		uint64_t start = now_ns();

		for (size_t i = 0; i < blocks.size() && i < blocks_of_a_round; i++) {
			add<<<grid, BLOCK>>>(blocks[i].p, words);
			blocks[i].base++;
			/* never much in flight: who is busy for long is not evicted */
			CK(cudaDeviceSynchronize());
		}
		if (rounds.size() < ROUNDS)
			rounds.push_back({start, now_ns() - start});
	}

	bool take()
	{
		uint32_t *p, seed = (uint32_t)blocks.size();
		uint64_t start = now_ns();
		cudaError_t e = cudaMalloc(&p, words * 4);

		if (e == cudaErrorMemoryAllocation) {
			cudaGetLastError();
			printf("refused %zu\n", words * 4);
			return false;
		}
		CK(e);
		printf("alloc %llu %llu\n", (unsigned long long)start,
		       (unsigned long long)(now_ns() - start));
		fill<<<grid, BLOCK>>>(p, words, seed);
		CK(cudaDeviceSynchronize());
		blocks.push_back({p, seed});
		return true;
	}

	void check()
	{
		unsigned *wrong, count;

		CK(cudaHostAlloc(&wrong, 4, cudaHostAllocMapped));
		*wrong = 0;
		for (auto &b : blocks)
			count_wrong<<<grid, BLOCK>>>(b.p, words, b.base, wrong);
		CK(cudaDeviceSynchronize());
		count = *wrong;
		if (count)
			fail("%u words of %zu blocks are wrong", count, blocks.size());
	}

	void tell()
	{
		std::vector<uint64_t> took;

		for (auto &r : rounds)
			took.push_back(r.took);
		if (took.empty())
			fail("no memory at all");
		std::nth_element(took.begin(), took.begin() + took.size() / 2,
				 took.end());
		uint64_t median = took[took.size() / 2];
		printf("round %zu %llu\n", rounds.size(), (unsigned long long)median);
		for (auto &r : rounds)
			if (r.took > 2 * median + LONGER)
				printf("gap %llu %llu\n", (unsigned long long)r.start,
				       (unsigned long long)r.took);
	}
};

int main(int argc, char **argv)
{
	check_name = "greedy";
	if (argc < 3 || argc > 5 || (argc == 5 && strcmp(argv[4], "one")))
		fail("usage: greedy KIB BLOCK-KIB [PAUSE-MS [one]]");
	size_t want = strtoull(argv[1], nullptr, 0) << 10;
	size_t size = strtoull(argv[2], nullptr, 0) << 10;
	uint64_t pause = argc > 3 ? (uint64_t)(atof(argv[3]) * 1e6) : 0;
	tenant me;

	if (!size)
		fail("blocks of nothing");
	me.words = size / 4;
	me.blocks_of_a_round = argc > 4 ? 1 : ~0u;
	me.grid = (unsigned)std::min<size_t>((me.words + BLOCK - 1) / BLOCK, 1024);
	CK(cudaFree(nullptr));
	size_t left, all;
	CK(cudaMemGetInfo(&left, &all));
	printf("ready %zu\n", left);
	fflush(stdout);
	while ((me.blocks.size() + 1) * size <= want && me.take()) {
		fflush(stdout);
		uint64_t next = now_ns() + pause;
		do
			me.work();
		while (now_ns() < next);
	}
	printf("full %zu\n", me.blocks.size() * size);
	fflush(stdout);
	while (!input_ended())
		me.work();
	me.check();
	me.tell();
	return pass();
}
