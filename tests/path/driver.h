/* SPDX-License-Identifier: Apache-2.0 */
/* Common part of the programs that use the driver API directly. */
#ifndef WEFT_PATH_DRIVER_H
#define WEFT_PATH_DRIVER_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

static const char *check_name = "?";

__attribute__((format(printf, 1, 2), unused)) static void fail(const char *fmt, ...)
{
	va_list ap;

	printf("FAIL %s: ", check_name);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	_Exit(1);
}

static inline int pass(void)
{
	printf("PASS %s\n", check_name);
	return 0;
}

static inline const char *err(CUresult r)
{
	const char *s = NULL;

	cuGetErrorName(r, &s);
	return s ? s : "unnamed";
}

#define EXPECT(call, code)                                                               \
	do {                                                                             \
		CUresult ex_r = (call);                                                  \
		if (ex_r != (code))                                                      \
			fail("line %d: %s: %s instead of %s", __LINE__, #call,           \
			     err(ex_r), #code);                                          \
	} while (0)

#define CK(call) EXPECT(call, CUDA_SUCCESS)

#define REQUIRE(cond)                                                                    \
	do {                                                                             \
		if (!(cond))                                                             \
			fail("line %d: %s does not hold", __LINE__, #cond);              \
	} while (0)

#endif
