/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that end with the first error. */
#ifndef WEFT_TEST_CHECK_H
#define WEFT_TEST_CHECK_H

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                      \
	do {                                                                             \
		cudaError_t e_ = (call);                                                 \
		if (e_ != cudaSuccess) {                                                 \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e_));      \
			exit(1);                                                         \
		}                                                                        \
	} while (0)

#endif
