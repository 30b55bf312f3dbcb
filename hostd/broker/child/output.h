/* SPDX-License-Identifier: Apache-2.0 */
/* Output of children: lines for weftd's log, and how much of them. */
#ifndef WEFT_BROKER_OUTPUT_H
#define WEFT_BROKER_OUTPUT_H

#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "broker/loop/loop.h"

struct broker;

#define OUTPUT_LINE 512 /* bytes of it; what is longer goes on in the next */

/* Budget of bytes for those that share it; zero-initialise. */
struct output_budget {
	uint64_t bytes, at_ns;
	const char *tenant, *vm_uuid; /* whose it is; NULL: no tenant's */
};

struct output {
	struct list link; /* b->loud: not read for now */
	struct broker *b;
	struct source src;
	struct output_budget *budget; /* its tenant's, or all others' */
	const char *program;
	pid_t pid;
	uint64_t session; /* a worker's; 0: none */
	unsigned n;
	char line[OUTPUT_LINE]; /* the first n bytes of it */
};

/* Makes a pipe whose lines are logged as the program's; *ret_fd is the end to write to.
 * Returns 0 or -errno. */
int output_open(struct broker *b, struct output *o, const char *program,
		struct output_budget *budget, int *ret_fd);
/* Goes on with the end to read of a pipe, which is taken over; -1: there is none. Returns
 * 0 or -errno. */
int output_adopt(struct broker *b, struct output *o, const char *program,
		 struct output_budget *budget, int fd);
/* Logs what is left of the output, and ends it. */
void output_close(struct output *o);
/* Logs bytes of a child line by line; what cannot be printed becomes '?'. */
void output_take(struct output *o, const char *bytes, size_t n);
/* Timer (loop.h): reads on where there was too much. */
uint64_t output_tick(void *broker, uint64_t now_ns);

/* Cleans text that came from a guest, for the log and for terminals. */
static inline void clean_text(char *text)
{
	for (char *p = text; *p; p++) {
		if (*p < ' ' || *p > '~')
			*p = '?';
	}
}

#endif
