/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_BASE_CPUS_H
#define WEFT_BASE_CPUS_H

#include <sched.h>

/* How many processors the calling thread may run on; 1 where the kernel does not say. */
static inline unsigned cpus_allowed(void)
{
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
		return 1;
	return (unsigned)CPU_COUNT(&cpus);
}

#endif
