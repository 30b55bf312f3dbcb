/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common part of the workloads of memory over-commitment:
 *
 *	PROGRAM [KIB [STEPS [wait]]]
 *
 * allocates about KIB of device memory, works on it STEPS times, compares every byte of
 * the result with the same computation on the CPU, and prints
 *
 *	ready FREE DEVICE		the context is there, nothing is allocated yet;
 *					bytes free, the device's name
 *	loaded				the memory is allocated and filled
 *	took SECONDS BYTES TRAFFIC	time of the steps, bytes allocated, and bytes
 *					that the steps read and wrote at least
 *	PASS name			or FAIL name: why
 *
 * With "wait" it reads a line of input after "ready", "loaded" and "took", so that two of
 * them can be brought to work at the same time. Kernels and the CPU round alike
 * (-fmad=false), and sums that many threads build are sums of integers, so results are
 * equal to the last bit. With WORKLOAD_MANAGED the memory is cudaMallocManaged's.
 */
#ifndef WEFT_SWAP_WORKLOAD_H
#define WEFT_SWAP_WORKLOAD_H

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "../../path/check.h"

#define FIX 65536.0f /* of fixed-point sums */

struct workload {
  size_t bytes, traffic = 0, allocated = 0;
  int steps;
  bool wait;
  std::chrono::steady_clock::time_point start;

  workload(const char *name, int argc, char **argv, size_t kib,
           int default_steps) {
    check_name = name;
    bytes = (argc > 1 ? strtoull(argv[1], nullptr, 0) : kib) << 10;
    steps = argc > 2 ? atoi(argv[2]) : default_steps;
    wait = argc > 3 && !strcmp(argv[3], "wait");
    if (bytes < 64 << 10 || steps < 1 || argc > 4 || (argc > 3 && !wait))
      fail("usage: %s [KIB [STEPS [wait]]], from 64 KiB on", name);
    CK(cudaFree(nullptr));
    size_t left, all;
    cudaDeviceProp p;
    CK(cudaMemGetInfo(&left, &all));
    CK(cudaGetDeviceProperties(&p, 0));
    say("ready " + std::to_string(left) + " " + p.name);
  }

  void say(const std::string &what) {
    char line[16];

    printf("%s\n", what.c_str());
    fflush(stdout);
    if (wait && !fgets(line, sizeof(line), stdin))
      fail("nobody says go on");
  }

  /* Loads the code of the kernels that the steps launch. */
  template <class... F> void loaded(F... kernels) {
    cudaFuncAttributes a;

    for (const void *k : {(const void *)kernels...})
      CK(cudaFuncGetAttributes(&a, k));
    CK(cudaDeviceSynchronize());
    say("loaded");
    start = std::chrono::steady_clock::now();
  }

  void took() {
    char text[96];

    CK(cudaDeviceSynchronize());
    std::chrono::duration<double> d = std::chrono::steady_clock::now() - start;
    snprintf(text, sizeof(text), "took %.6f %zu %zu", d.count(), allocated,
             traffic);
    say(text);
  }
};

template <class T> struct work_array {
  T *p = nullptr;
  size_t n;
  work_array(workload &w, size_t count) : n(count) {
#ifdef WORKLOAD_MANAGED
    CK(cudaMallocManaged(&p, n * sizeof(T)));
#else
    CK(cudaMalloc(&p, n * sizeof(T)));
#endif
    w.allocated += n * sizeof(T);
    CK(cudaMemset(p, 0, n * sizeof(T)));
  }
  work_array(workload &w, const std::vector<T> &v) : work_array(w, v.size()) {
    CK(cudaMemcpy(p, v.data(), n * sizeof(T), cudaMemcpyHostToDevice));
  }
  /* Ends the program unless the bytes are those on the CPU. */
  void must_equal(const std::vector<T> &want, const char *what) const {
    std::vector<T> got(n);

    CK(cudaMemcpy(got.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n; i++)
      if (memcmp(&got[i], &want[i], sizeof(T)))
        fail("%s, element %zu of %zu: %.9g instead of %.9g", what, i, n,
             (double)got[i], (double)want[i]);
  }
  ~work_array() { cudaFree(p); }
  work_array(const work_array &) = delete;
};

/* f(first, end) on every processor, for parts of 0..n. */
static inline void in_parts(size_t n,
                            const std::function<void(size_t, size_t)> &f) {
  size_t parts = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> all;

  for (size_t i = 0; i < parts; i++)
    all.emplace_back(f, n * i / parts, n * (i + 1) / parts);
  for (auto &t : all)
    t.join();
}

static inline unsigned grid(size_t n, unsigned block) {
  return (unsigned)((n + block - 1) / block);
}

/* A well mixed number of three. */
__host__ __device__ static inline uint32_t mix(uint32_t a, uint32_t b,
                                               uint32_t c) {
  uint32_t h = a * 0x9e3779b1u ^ (b + 0x7f4a7c15u) * 0x85ebca6bu ^
               (c + 0x165667b1u) * 0xc2b2ae35u;

  h ^= h >> 15;
  h *= 0x2c1b3c6du;
  h ^= h >> 12;
  h *= 0x297a2d39u;
  return h ^ h >> 15;
}

/* A number in [0, 1) of that. */
__host__ __device__ static inline float mixf(uint32_t a, uint32_t b,
                                             uint32_t c) {
  return (float)(mix(a, b, c) >> 8) / 16777216.0f;
}

#endif
