/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <string.h>

#include "base/log.h"
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
