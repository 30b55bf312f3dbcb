/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Works for some seconds, or with "-" until its input ends, and checks every result.
 * Prints "running" after the first round and "right N" at the end. Exit status 1: an
 * error, named; 2: a wrong result.
 */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <unistd.h>
#include <vector>

__global__ void step(unsigned *p, unsigned n, unsigned k)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		p[i] = p[i] * 1664525u + k;
}

#define CK(x)                                                                            \
	do {                                                                             \
		cudaError_t e = (x);                                                     \
		if (e) {                                                                 \
			printf("%s\n", cudaGetErrorName(e));                             \
			return 1;                                                        \
		}                                                                        \
	} while (0)

static bool input_ended()
{
	struct pollfd p = {STDIN_FILENO, POLLIN, 0};
	char c;

	return poll(&p, 1, 0) > 0 && read(STDIN_FILENO, &c, 1) <= 0;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	unsigned pause_ms = argc > 2 ? atoi(argv[2]) : 0; /* of each round */
	bool stays = argc > 1 && !strcmp(argv[1], "-");
	auto start = std::chrono::steady_clock::now();
	auto over = [&] {
		std::chrono::duration<double> d =
			std::chrono::steady_clock::now() - start;
		return stays ? input_ended() : d.count() >= seconds;
	};
	const unsigned n = 20000;
	std::vector<unsigned> want(n), got(n);
	unsigned *p, rounds = 0;

	CK(cudaMalloc(&p, n * 4));
	do {
		for (unsigned i = 0; i < n; i++)
			want[i] = i ^ rounds;
		CK(cudaMemcpy(p, want.data(), n * 4, cudaMemcpyHostToDevice));
		for (unsigned k = 0; k < 4; k++) {
			step<<<(n + 255) / 256, 256>>>(p, n, k);
			for (auto &w : want)
				w = w * 1664525u + k;
		}
		CK(cudaMemcpy(got.data(), p, n * 4, cudaMemcpyDeviceToHost));
		if (got != want)
			return 2;
		if (pause_ms)
			usleep(pause_ms * 1000);
		if (!rounds++) {
			printf("running\n");
			fflush(stdout);
		}
	} while (!over());
	CK(cudaFree(p));
	printf("right %u\n", rounds);
	return 0;
}
