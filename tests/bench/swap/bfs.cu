/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Breadth-first search level by level from many sources: a kernel over all
 * nodes for each level. The graph has LEVELS layers, the first are the sources;
 * every node has EDGES edges, one to the next layer and the others to anywhere
 * up to there.
 */
#include "workload.h"

#include <algorithm>

#define BLOCK  256
#define EDGES  8
#define LEVELS 24

__global__ void level(const uint32_t *first, const uint32_t *edge, int *distance,
		      size_t n, int here, int *again)
{
	size_t v = blockIdx.x * (size_t)BLOCK + threadIdx.x;

	if (v >= n || distance[v] != here)
		return;
	for (uint32_t e = first[v]; e < first[v + 1]; e++)
		if (distance[edge[e]] < 0) {
			distance[edge[e]] = here + 1;
			*again = 1;
		}
}

static size_t layer(size_t n)
{
	return (n + LEVELS - 1) / LEVELS;
}

static void make_graph(size_t n, std::vector<uint32_t> &first,
		       std::vector<uint32_t> &edge)
{
	size_t width = layer(n);

	for (size_t v = 0; v <= n; v++)
		first.push_back((uint32_t)(v * EDGES));
	edge.resize(first[n]);
	in_parts(n, [&](size_t v, size_t end) {
		for (; v < end; v++) {
			uint32_t *e = &edge[first[v]], id = (uint32_t)v;
			size_t limit = std::min(n, (v / width + 2) * width);

			for (int k = 0; k < EDGES; k++)
				e[k] = mix(id, 7, k) % (uint32_t)limit;
			if (v + width < n)
				e[mix(id, 8, 0) % EDGES] = (uint32_t)(v + width);
		}
	});
}

static std::vector<int> search(const std::vector<uint32_t> &first,
			       const std::vector<uint32_t> &edge)
{
	size_t n = first.size() - 1;
	std::vector<int> distance(n, -1);
	std::vector<uint32_t> queue;

	for (size_t v = 0; v < layer(n); v++) {
		distance[v] = 0;
		queue.push_back((uint32_t)v);
	}
	for (size_t i = 0; i < queue.size(); i++)
		for (uint32_t e = first[queue[i]]; e < first[queue[i] + 1]; e++)
			if (distance[edge[e]] < 0) {
				distance[edge[e]] = distance[queue[i]] + 1;
				queue.push_back(edge[e]);
			}
	return distance;
}

int main(int argc, char **argv)
{
	workload work("bfs", argc, argv, 256, 2);
	size_t n = work.bytes / (4 * EDGES + 8);
	std::vector<uint32_t> first, edge;

	make_graph(n, first, edge);
	work_array<uint32_t> dfirst(work, first), dedge(work, edge);
	work_array<int> distance(work, n), again(work, 1);

	/* each step: every level looks at all distances, every edge is followed once
	 */
	work.traffic = work.steps * (edge.size() * 8 + n * 4 * (LEVELS + 2));
	work.loaded(level);
	for (int s = 0; s < work.steps; s++) {
		int more = 1;

		CK(cudaMemset(distance.p, 0xff, n * sizeof(int)));
		CK(cudaMemset(distance.p, 0, layer(n) * sizeof(int)));
		for (int here = 0; more; here++) {
			CK(cudaMemset(again.p, 0, sizeof(int)));
			level<<<grid(n, BLOCK), BLOCK>>>(dfirst.p, dedge.p, distance.p, n,
							 here, again.p);
			CK(cudaMemcpy(&more, again.p, sizeof(int),
				      cudaMemcpyDeviceToHost));
		}
	}
	work.took();

	std::vector<int> want = search(first, edge);
	if (*std::max_element(want.begin(), want.end()) < LEVELS / 2)
		fail("a graph without depth");
	distance.must_equal(want, "distance");
	dfirst.must_equal(first, "first edges");
	dedge.must_equal(edge, "edges");
	return pass();
}
