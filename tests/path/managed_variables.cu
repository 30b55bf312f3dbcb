/* SPDX-License-Identifier: Apache-2.0 */
/* Variables in managed memory: one address for program and kernels, their first values, and what
 * CUDA says of them. */
#include <cstring>
#include <vector>

#include "check.h"

static const int N = 100000;

struct list {
	list *next;
	int value;
};

__managed__ int counter = 5;
__managed__ int table[N];
__managed__ list *head;
__device__ __managed__ double numbers[3] = {1, 2, 4};
static __managed__ bool flag = true;
__device__ int plain = 3;

__global__ void step(int by)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < N)
		table[i] += by + plain;
	if (!i) {
		counter += by;
		numbers[1] *= numbers[2];
		flag = !flag;
	}
}

__global__ void walk(int *sum, int **where)
{
	*sum = 0;
	for (const list *l = head; l; l = l->next)
		*sum += l->value;
	*where = &counter;
}

static void values()
{
	REQUIRE(counter == 5 && numbers[0] == 1 && numbers[2] == 4 && flag);
	for (int i = 0; i < N; i += 77)
		REQUIRE(table[i] == 0);
	for (int round = 1; round <= 3; round++) {
		step<<<(N + 255) / 256, 256>>>(2);
		CK(cudaDeviceSynchronize());
		REQUIRE(counter == 4 + 3 * round);
		REQUIRE(flag == (round % 2 == 0));
		for (int i = 0; i < N; i += 77)
			REQUIRE(table[i] == 5 * round);
		counter++;
	}
	REQUIRE(numbers[1] == 2 * 4 * 4 * 4);
}

/* Addresses in them, and of them, are good on both sides. */
static void pointers()
{
	int *sum, **where;

	CK(cudaMallocManaged(&sum, sizeof(*sum)));
	CK(cudaMallocManaged(&where, sizeof(*where)));
	for (int i = 1; i <= 10; i++) {
		list *l;

		CK(cudaMallocManaged(&l, sizeof(*l)));
		*l = {head, i};
		head = l;
	}
	walk<<<1, 1>>>(sum, where);
	CK(cudaDeviceSynchronize());
	REQUIRE(*sum == 55 && *where == &counter);
	CK(cudaFree(sum));
	CK(cudaFree(where));
}

static void calls()
{
	std::vector<int> v(N, 9);
	cudaPointerAttributes a;
	void *address;
	int one = 77;

	CK(cudaPointerGetAttributes(&a, &counter));
	REQUIRE(a.type == cudaMemoryTypeManaged && a.hostPointer == &counter);
	CK(cudaGetSymbolAddress(&address, counter));
	REQUIRE(address == &counter);
	CK(cudaMemcpyToSymbol(counter, &one, sizeof(one)));
	CK(cudaDeviceSynchronize());
	REQUIRE(counter == 77);
	CK(cudaMemcpy(table, v.data(), sizeof(table), cudaMemcpyDefault));
	REQUIRE(table[0] == 9 && table[N - 1] == 9);
	memset(table, 0, sizeof(table));
	CK(cudaMemcpy(v.data(), table, sizeof(table), cudaMemcpyDefault));
	REQUIRE(v[0] == 0 && v[N - 1] == 0);
	EXPECT(cudaFree(&counter), cudaErrorInvalidValue);
	(void)cudaGetLastError();
}

int main()
{
	int v;

	check_name = "managed_variables";
	CK(cudaDeviceGetAttribute(&v, cudaDevAttrManagedMemory, 0));
	if (!v) {
		printf("no managed memory here\n");
		return pass();
	}
	values();
	pointers();
	calls();
	return pass();
}
