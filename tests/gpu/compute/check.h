/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that end with the first error. */
#ifndef WEFT_TEST_CHECK_H
#define WEFT_TEST_CHECK_H

#include <cstdio>
#include <cstdlib>

/* A library's call, whose 0 is success, and what the library says of others. */
#define CHECK_BY(text_of, call)                                                          \
	do {                                                                             \
		auto e_ = (call);                                                        \
		if (e_) {                                                                \
			fprintf(stderr, "%s: %s\n", #call, text_of(e_));                 \
			exit(1);                                                         \
		}                                                                        \
	} while (0)

#define CHECK(call) CHECK_BY(cudaGetErrorString, call)

#endif
