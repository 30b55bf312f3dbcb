/* SPDX-License-Identifier: Apache-2.0 */
/* A library that is loaded in the place of the host's NVML. */
#ifndef WEFT_DEVICE_NVML_FAKE_H
#define WEFT_DEVICE_NVML_FAKE_H

#include <stdbool.h>

/* nvmlProcessInfo_t and nvmlProcessUtilizationSample_t */
struct fake_holder {
	unsigned pid;
	unsigned long long bytes;
	unsigned instance, compute_instance;
};

struct fake_sample {
	unsigned pid;
	unsigned long long at_us;
	unsigned sm, memory, encoder, decoder;
};

struct fake_nvml {
	unsigned processes;
	unsigned asked, sampled; /* how often */
};

extern struct fake_nvml fake_nvml;

#endif
