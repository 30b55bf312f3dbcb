/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device without a device: it keeps account of addresses, pieces and mappings, and
 * asserts what the table of device operations promises. For tests of what stands above
 * it.
 */
#ifndef WEFT_TEST_HOST_FAKE_H
#define WEFT_TEST_HOST_FAKE_H

#include "session/command.h"
#include "session/session.h"

#define FAKE_STREAMS 8

/* Everything the fake device holds. */
struct fake_state {
	_Atomic uint64_t reserved, created, mapped, accessible; /* bytes */
	_Atomic unsigned contexts, streams, events, modules; /* lanes count, tests read */
	_Atomic uint64_t synchronized;                       /* contexts, so often */
	uint64_t limit; /* mem_create and module.load fail above; 0: none */
	/* what the process has of the device, and by how much a context changes that */
	uint64_t overhead, context_takes;
	/* what it has beside pieces, and how much of that may be some that is just being
	 * made; silent: nobody says */
	_Atomic uint64_t takes, unsure;
	_Atomic bool silent;
	/* what changes that, and what a module says that it takes */
	uint64_t module_takes, function_takes, module_guess;
	bool compresses;               /* what is to be compressible */
	_Atomic unsigned asked_status; /* so often */
	bool reaches_functions;        /* of the host, as soon as they are queued */
	/* [who][for whom]: waits for that many of its operations */
	uint64_t waits[FAKE_STREAMS][FAKE_STREAMS];
};

extern struct fake_state fake;

extern const struct device_ops fake_ops;

/* Bytes that a broker would have charged; charges fail above fake_quota. */
extern _Atomic uint64_t fake_charged, fake_quota;

/* How often mem_create has failed. */
extern _Atomic unsigned fake_refused;
extern const struct accounts fake_broker;
/* Called, if set, while a charge waits for its answer. */
extern void (*fake_while_charging)(void);

/* Streams do nothing by themselves: a test submits operations (returned: how many there
 * are by now) and lets the stream do some. */
uint64_t fake_submit(struct dev_stream *st);
void fake_advance(struct dev_stream *st, uint64_t n);
uint64_t fake_done(const struct dev_stream *st);
unsigned fake_index(const struct dev_stream *st);

/* A session on the fake device. */
struct session *fake_session(void);

#endif
