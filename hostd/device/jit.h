/* SPDX-License-Identifier: Apache-2.0 */
/* Options and results of compiling and linking, after CU_JIT_*. */
#ifndef WEFT_DEVICE_JIT_H
#define WEFT_DEVICE_JIT_H

#include "device/handles.h"

/* A CU_JIT_* option whose value is a number. */
struct dev_jit_option {
	CUjit_option option;
	unsigned value;
};

/* A variable in managed memory (__managed__), which lies outside its module. */
struct dev_managed {
	const char *name;
	uint64_t bytes;
	CUdeviceptr addr; /* host memory that the device shares (memory.host_map()) */
};

#define DEV_JIT_OPTIONS_MAX 24
#define DEV_TARGETS_BYTES   32

struct dev_jit {
	char *info_log, *error_log;   /* may be NULL */
	size_t info_size, error_size; /* in: room; out: bytes written with the NUL */
	unsigned max_registers;       /* 0: no limit */
	int optimization_level;       /* 0 to 4 */
	bool verbose, line_info, debug;
	/* Others; a device may ignore them. At most DEV_JIT_OPTIONS_MAX. */
	const struct dev_jit_option *options;
	unsigned n_options;
	/* For load_library(), which gives them their first values unless they have had them: where
	 * such variables are, as long as it is loaded. */
	const struct dev_managed *managed;
	unsigned n_managed;
	bool managed_set;
	float wall_time_ms; /* out */
	/* out: for which GPUs an image is that has no code for this one ("sm_90"); empty
	 * if it has, or if the device does not say */
	char no_code[DEV_TARGETS_BYTES];
};

/* Copies n of them, with their names, into one piece that the caller frees; NULL: out of memory. */
struct dev_managed *dev_managed_copy(const struct dev_managed *v, unsigned n);

#endif
