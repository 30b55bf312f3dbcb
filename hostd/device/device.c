/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/macros.h"
#include "device/device.h"

/* Whether the real driver can be loaded here and has a device. */
static const struct device_ops *pick(void)
{
	struct device_config cfg = {0};
	struct device *dev;

	if (device_cuda_ops.open(&cfg, &dev) < 0)
		return &device_soft_ops;
	device_cuda_ops.close(dev);
	return &device_cuda_ops;
}

const struct device_ops *device_ops_by_name(const char *name)
{
	if (!strcmp(name, "soft"))
		return &device_soft_ops;
	if (!strcmp(name, "cuda"))
		return &device_cuda_ops;
	return strcmp(name, "auto") ? NULL : pick();
}

struct dev_tpcs dev_tpcs_pick(const struct dev_tpc_map *map, const struct dev_tpcs *set,
			      const uint64_t places[2])
{
	uint8_t in_gpc[UINT8_MAX + 1] = {0};
	struct dev_tpcs picked = {.n = 0};
	unsigned place = 0;

	for (unsigned i = 0; i < map->n && place < 128; i++) {
		unsigned bit = map->bit[i], gpc = map->gpc[i];

		if (set->n && !(set->bits[bit / 64 % 2] >> bit % 64 & 1))
			continue;
		if (places[place / 64] >> place % 64 & 1) {
			picked.bits[bit / 64 % 2] |= 1ull << bit % 64;
			picked.n++;
			in_gpc[gpc]++;
			picked.n_in_gpc = MAX(picked.n_in_gpc, (unsigned)in_gpc[gpc]);
		}
		place++;
	}
	return picked.n ? picked : *set;
}

struct dev_managed *dev_managed_copy(const struct dev_managed *v, unsigned n)
{
	size_t names = 1, len;
	struct dev_managed *copy;
	char *name;

	for (unsigned i = 0; i < n; i++)
		names += strlen(v[i].name) + 1;
	copy = calloc(1, n * sizeof(*copy) + names);
	if (!copy)
		return NULL;
	name = (char *)(copy + n);
	for (unsigned i = 0; i < n; i++) {
		copy[i] = v[i];
		len = strlen(v[i].name) + 1;
		copy[i].name = memcpy(name, v[i].name, len);
		name += len;
	}
	return copy;
}
