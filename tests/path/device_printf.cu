/* SPDX-License-Identifier: Apache-2.0 */
/* Device printf on the program's standard output, in order with what the host prints. */
#include "check.h"

#include <string>
#include <unistd.h>

__global__ void talk(int n)
{
	if (threadIdx.x == 0)
		printf("block %d of %u: %s %5.2f %c %#x %lld %%\n", blockIdx.x, gridDim.x, "text",
		       3.14159, 'w', 255, 1234567890123ll * (n + 1));
}

__global__ void nothing()
{
}

int main()
{
	check_name = "device_printf";
	int fds[2], out = dup(1);

	REQUIRE(pipe(fds) == 0);
	fflush(stdout);
	dup2(fds[1], 1);
	printf("before\n");
	fflush(stdout);
	talk<<<1, 32>>>(0);
	CK(cudaDeviceSynchronize());
	printf("between\n");
	fflush(stdout);
	talk<<<1, 32>>>(1);
	nothing<<<1, 1>>>();
	CK(cudaStreamSynchronize(0));
	printf("after\n");
	fflush(stdout);
	dup2(out, 1);
	close(fds[1]);
	std::string got;
	char buf[512];
	for (ssize_t n; (n = read(fds[0], buf, sizeof(buf))) > 0;)
		got.append(buf, n);
	std::string want = "before\n"
			   "block 0 of 1: text  3.14 w 0xff 1234567890123 %\n"
			   "between\n"
			   "block 0 of 1: text  3.14 w 0xff 2469135780246 %\n"
			   "after\n";
	if (got != want)
		fail("got:\n%s", got.c_str());
	return pass();
}
