/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VM's window as the guest sees it: BAR 2 of an ivshmem-plain device, mapped from user
 * space through sysfs. A udev rule of the guest image says who may open it.
 */
#ifndef WEFT_BAR_H
#define WEFT_BAR_H

#include <stdbool.h>
#include <stdint.h>

#define BAR_SYSFS "/sys/bus/pci/devices"

struct bar {
	void *map;
	uint64_t size; /* bytes mapped */
	uint32_t key;  /* from struct wire_window_id */
	bool weak;     /* mapped write-combining */
	int fd;        /* open while map is not NULL */
};

#define BAR_WHY_MAX 256

/*
 * Maps the first window of Weft among the PCI devices under the given directory
 * (BAR_SYSFS). Returns 0, -ENODEV (none), -EACCES (one may be, but it may not be opened),
 * -EMSGSIZE (smaller than the host's), -EPROTONOSUPPORT (another version); and, if not
 * 0, half a sentence that says so and what to do.
 */
int bar_find(const char *sysfs, struct bar *ret_bar, char ret_why[BAR_WHY_MAX]);

/* Unmaps. Accepts one that is not mapped. */
void bar_fini(struct bar *b);

#endif
