/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session on a software device that counts the memory it made, and fails when told to;
 * its broker grants everything.
 */
#ifndef WEFT_TEST_HOST_COUNTED_H
#define WEFT_TEST_HOST_COUNTED_H

#include <stdatomic.h>

#include "session/command.h"
#include "session/session.h"

extern struct counted {
	_Atomic uint64_t on_device, in_host; /* bytes of pieces */
	_Atomic int64_t fail_in;             /* calls until one fails; 0: none will */
	_Atomic bool no_host, no_device;     /* no more memory of that kind */
	_Atomic uint64_t charged, evicted_freed;
	_Atomic uint64_t room;        /* of a charge; the rest is evicted */
	void (*_Atomic on_map)(void); /* before the device maps; taken off at once */
	/* Mappings at the first copy since `copies` was 0, and at the last. */
	_Atomic unsigned maps, copies, maps_first, maps_last;
} counted;

/* Pieces are as large as the device's pieces. */
struct session *counted_session(const struct device_config *cfg);
/* Nothing is left of it. */
void counted_end(struct session *s);

/* Bytes that were made compressible. */
uint64_t counted_compressible(void);

#endif
