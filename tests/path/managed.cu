/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory: one address for program and device, from the first tutorial's use of it to what
 * can be asked and advised of it. */
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "check.h"

static const size_t N = 1 << 18, BYTES = N * sizeof(float);

__global__ void add(size_t n, const float *x, float *y)
{
	for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		y[i] = x[i] + y[i];
}

struct node {
	node *next;
	int value;
};

__global__ void walk(const node *list, int *sum)
{
	*sum = 0;
	for (; list; list = list->next)
		*sum += list->value;
}

static float *managed(size_t bytes, float value = 0)
{
	float *p = nullptr;

	CK(cudaMallocManaged(&p, bytes));
	for (size_t i = 0; i < bytes / sizeof(float); i++)
		p[i] = value;
	return p;
}

static void all_are(const float *p, float value)
{
	for (size_t i = 0; i < N; i++)
		REQUIRE(p[i] == value);
}

/* NVIDIA's introduction, and again with the program writing in between. */
static void first_program()
{
	float *x = managed(BYTES, 1), *y = managed(BYTES, 2);

	for (int round = 0; round < 3; round++) {
		add<<<(N + 255) / 256, 256>>>(N, x, y);
		CK(cudaDeviceSynchronize());
		all_are(y, 3 + round * 2);
		for (size_t i = 0; i < N; i++)
			y[i] += 1;
	}
	CK(cudaFree(x));
	CK(cudaFree(y));
}

/* Pointers in it are good on both sides. */
static void structures()
{
	node *list = nullptr, *n;
	int *sum, expected = 0;

	CK(cudaMallocManaged(&sum, sizeof(*sum)));
	for (int i = 0; i < 100; i++) {
		CK(cudaMallocManaged(&n, sizeof(*n)));
		*n = {list, i};
		list = n;
		expected += i;
	}
	walk<<<1, 1>>>(list, sum);
	CK(cudaDeviceSynchronize());
	REQUIRE(*sum == expected);
	while (list) {
		n = list->next;
		CK(cudaFree(list));
		list = n;
	}
	CK(cudaFree(sum));
}

/* Copies of each kind, from and to each kind of memory, and fills. */
static void copies()
{
	float *m = managed(BYTES, 1), *other = managed(BYTES, 5), *device, *pinned;
	std::vector<float> plain(N, 7);
	cudaStream_t stream;

	CK(cudaMalloc(&device, BYTES));
	CK(cudaMallocHost(&pinned, BYTES));
	CK(cudaStreamCreate(&stream));
	CK(cudaMemcpy(device, m, BYTES, cudaMemcpyHostToDevice));
	CK(cudaMemcpy(plain.data(), device, BYTES, cudaMemcpyDeviceToHost));
	all_are(plain.data(), 1);
	CK(cudaMemset(m, 0, BYTES));
	CK(cudaDeviceSynchronize());
	all_are(m, 0);
	CK(cudaMemcpy(m, plain.data(), BYTES, cudaMemcpyHostToDevice));
	all_are(m, 1);
	CK(cudaMemcpy(m, other, BYTES, cudaMemcpyDeviceToDevice));
	CK(cudaDeviceSynchronize());
	all_are(m, 5);
	CK(cudaMemcpy(plain.data(), m, BYTES, cudaMemcpyDefault));
	all_are(plain.data(), 5);
	CK(cudaMemsetAsync(other, 0, BYTES, stream));
	CK(cudaMemcpyAsync(pinned, other, BYTES, cudaMemcpyDeviceToHost, stream));
	CK(cudaMemcpyAsync(m, pinned, BYTES, cudaMemcpyHostToHost, stream));
	CK(cudaStreamSynchronize(stream));
	all_are(m, 0);
	CK(cudaMemcpy2D(m, 64, plain.data(), 64, 64, BYTES / 64, cudaMemcpyHostToDevice));
	all_are(m, 5);
	CK(cudaStreamDestroy(stream));
	CK(cudaFree(m));
	CK(cudaFree(other));
	CK(cudaFree(device));
	CK(cudaFreeHost(pinned));
}

static void questions()
{
	float *m = managed(BYTES);
	cudaPointerAttributes a;
	int v = -5, by[3] = {-5, -5, -5};
	cudaMemLocation here = {cudaMemLocationTypeDevice, 0},
			host = {cudaMemLocationTypeHost, 0},
			wrong = {cudaMemLocationTypeDevice, 77};

	CK(cudaPointerGetAttributes(&a, m + 5));
	REQUIRE(a.type == cudaMemoryTypeManaged && a.device == 0);
	REQUIRE(a.hostPointer == m + 5 && a.devicePointer == m + 5);
	CK(cudaMemRangeGetAttribute(&v, 4, cudaMemRangeAttributeReadMostly, m, BYTES));
	REQUIRE(v == 0);
	CK(cudaMemRangeGetAttribute(&v, 4, cudaMemRangeAttributePreferredLocation, m,
				    BYTES));
	REQUIRE(v == cudaInvalidDeviceId);
	CK(cudaMemAdvise(m, BYTES, cudaMemAdviseSetReadMostly, here));
	CK(cudaMemAdvise(m, BYTES, cudaMemAdviseSetPreferredLocation, host));
	CK(cudaMemAdvise(m, BYTES, cudaMemAdviseSetAccessedBy, here));
	CK(cudaMemPrefetchAsync(m, BYTES, here, 0, nullptr));
	CK(cudaDeviceSynchronize());
	CK(cudaMemRangeGetAttribute(&v, 4, cudaMemRangeAttributeReadMostly, m, BYTES));
	REQUIRE(v == 1);
	CK(cudaMemRangeGetAttribute(&v, 4, cudaMemRangeAttributePreferredLocation, m,
				    BYTES));
	REQUIRE(v == cudaCpuDeviceId);
	CK(cudaMemRangeGetAttribute(&v, 4, cudaMemRangeAttributeLastPrefetchLocation, m,
				    BYTES));
	REQUIRE(v == 0);
	CK(cudaMemRangeGetAttribute(by, 12, cudaMemRangeAttributeAccessedBy, m, BYTES));
	REQUIRE(by[0] == 0 && by[1] == cudaInvalidDeviceId &&
		by[2] == cudaInvalidDeviceId);
	CK(cudaMemAdvise(m, BYTES, cudaMemAdviseUnsetReadMostly, here));
	CK(cudaMemRangeGetAttribute(&v, 4, cudaMemRangeAttributeReadMostly, m, BYTES));
	REQUIRE(v == 0);
	CK(cudaMemPrefetchAsync(m, BYTES, host, 0, nullptr));
	/* Mistakes. */
	EXPECT(cudaMemPrefetchAsync(m, BYTES, wrong, 0, nullptr), cudaErrorInvalidDevice);
	EXPECT(cudaMemAdvise(m, 0, cudaMemAdviseSetReadMostly, here),
	       cudaErrorInvalidValue);
	EXPECT(cudaFreeHost(m), cudaErrorInvalidValue);
	(void)cudaGetLastError();
	CK(cudaFree(m));
}

static void streams()
{
	float *m = managed(BYTES, 1), *y = managed(BYTES, 1);
	cudaStream_t stream;

	CK(cudaStreamCreate(&stream));
	CK(cudaStreamAttachMemAsync(stream, m, 0, cudaMemAttachSingle));
	CK(cudaStreamAttachMemAsync(stream, y, BYTES, cudaMemAttachSingle));
	CK(cudaStreamSynchronize(stream));
	add<<<64, 256, 0, stream>>>(N, m, y);
	CK(cudaStreamSynchronize(stream));
	all_are(y, 2);
	CK(cudaStreamDestroy(stream));
	CK(cudaFree(m));
	CK(cudaFree(y));
}

/* Many at once, of all sizes; a freed address is nobody's. */
static void many_threads()
{
	std::vector<std::thread> threads;

	for (int k = 0; k < 4; k++) {
		threads.emplace_back([k] {
			for (int i = 1; i < 30; i++) {
				size_t n = (size_t)i * i * 100 + k;
				float *x = managed(n * sizeof(float), k);
				float *y = managed(n * sizeof(float), i);

				add<<<4, 256>>>(n, x, y);
				CK(cudaDeviceSynchronize());
				for (size_t j = 0; j < n; j++)
					REQUIRE(y[j] == (float)(i + k));
				CK(cudaFree(x));
				CK(cudaFree(y));
			}
		});
	}
	for (auto &t : threads)
		t.join();
}

int main()
{
	int v;

	check_name = "managed";
	CK(cudaDeviceGetAttribute(&v, cudaDevAttrManagedMemory, 0));
	if (!v) { /* without a window */
		float *p;

		EXPECT(cudaMallocManaged(&p, BYTES), cudaErrorNotSupported);
		return pass();
	}
	first_program();
	structures();
	copies();
	questions();
	streams();
	many_threads();
	return pass();
}
