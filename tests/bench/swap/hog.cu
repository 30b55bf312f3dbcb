/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes all device memory but LEAVE-KIB and does nothing with it, until its input ends:
 *so that a large GPU is a small one for programs that run natively.
 *
 *	hog LEAVE-KIB
 */
#include "../../path/check.h"

#define STEP (2ull << 20) /* what the driver divides memory into */

int main(int argc, char **argv)
{
	check_name = "hog";
	if (argc != 2)
		fail("usage: hog LEAVE-KIB");
	size_t leave = strtoull(argv[1], nullptr, 0) << 10, left, all, piece;
	void *p;

	CK(cudaMemGetInfo(&left, &all));
	for (piece = left; piece >= STEP; piece /= 2)
		while (!cudaMemGetInfo(&left, &all) && left >= leave + piece &&
		       !cudaMalloc(&p, piece / STEP * STEP))
			continue;
	cudaGetLastError();
	printf("ready %zu\n", left);
	fflush(stdout);
	while (getchar() != EOF)
		continue;
	return pass();
}
