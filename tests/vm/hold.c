/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps a session open until it is killed: takes a part of the VM's window. */
#include <cuda.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	CUresult r = cuInit(0);

	if (r) {
		printf("cuInit: %d\n", (int)r);
		return 1;
	}
	puts("holding");
	fflush(stdout);
	for (;;)
		pause();
}
