/* SPDX-License-Identifier: Apache-2.0 */
/* Options of weft-worker's command line. */
#ifndef WEFT_WORKER_OPTIONS_H
#define WEFT_WORKER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "device/device.h"
#include "util/sandbox.h"

struct placement;

struct options {
	const char *device;
	struct sandbox sandbox;
	unsigned spin_us;
	const struct placement *placement; /* NULL: memory stays where it is */
	uint64_t piece_bytes;              /* in which it moves; 0: the default */
	bool turns;                        /* that go by memory: moves are for these */
	const char *extents; /* file of what the operator says; NULL: none */
	bool find_tpcs;                    /* weftd does not know them yet */
	struct device_config cfg;
};

void options_usage(FILE *f);

/* Returns 0, or -EINVAL: nothing is right; with --help it ends the process. */
int options_parse(int argc, char **argv, struct options *ret);

#endif
