/* SPDX-License-Identifier: Apache-2.0 */
/* Output of kernels, kept until CUDA would show it: a ring of CU_LIMIT_PRINTF_FIFO_SIZE
 * bytes that loses its oldest records when it overflows. Any thread. */
#ifndef WEFT_DEVICE_SOFT_OUTPUT_H
#define WEFT_DEVICE_SOFT_OUTPUT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device_config;

#define SOFT_OUTPUT_DEFAULT (1u << 20)
#define SOFT_OUTPUT_MIN     (4u << 10)
#define SOFT_OUTPUT_MAX     (64u << 20) /* host memory: not a guest's to waste */

struct soft_output {
	pthread_mutex_t lock;     /* a leaf */
	pthread_mutex_t flushing; /* keeps texts in order; held while output() runs */
	const struct device_config *cfg;
	size_t limit; /* of the next ring */
	char *ring;   /* NULL until something was printed */
	size_t size, start, used;
	bool any; /* used != 0; read without the lock */
};

void soft_output_init(struct soft_output *o, const struct device_config *cfg);
void soft_output_fini(struct soft_output *o);

/* Keeps a record of simt_calls.print. Returns 0 or -ENOBUFS. */
int soft_output_print(struct soft_output *o, const void *rec, size_t bytes);

/* Keeps a text as it is. */
void soft_output_text(struct soft_output *o, const char *text);

/* Hands everything to the user's output function. No lock may be held. */
void soft_output_flush(struct soft_output *o);

#endif
