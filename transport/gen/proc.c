/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "gen/proc.h"

/* Functions with a per-thread variant have it since CUDA 7.0. */
#define PER_THREAD_SINCE 7000

/* The first row with that name or a later one. */
static unsigned lower_bound(const char *name)
{
	unsigned lo = 0, hi = proc_count;

	while (lo < hi) {
		unsigned mid = lo + (hi - lo) / 2;

		if (strcmp(proc_table[mid].name, name) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int proc_find(const char *name, int version, bool per_thread, void **ret_fn)
{
	const struct proc *best = NULL;
	unsigned first = lower_bound(name), i;

	for (i = first; i < proc_count && !strcmp(proc_table[i].name, name); i++)
		if (proc_table[i].since <= version)
			best = &proc_table[i];
	if (i == first)
		return -ENOENT;
	if (!best)
		return -ERANGE;
	if (!best->plain)
		return -ENOENT;
	*ret_fn = per_thread && best->per_thread && version >= PER_THREAD_SINCE
			  ? best->per_thread
			  : best->plain;
	return 0;
}
