/* SPDX-License-Identifier: Apache-2.0 */
/* Sensors, utilisation and who uses the device, from NVML; where the TPCs are. */
#ifndef WEFT_DEVICE_CUDA_NVML_H
#define WEFT_DEVICE_CUDA_NVML_H

#include "device/cuda/device.h"

/* Before the sandbox; fills in info.driver as well. */
void cuda_nvml_open(struct device *dev);
void cuda_nvml_close(struct device *dev);
CUresult cuda_tpc_map(struct dev_ctx *ctx, struct dev_tpc_map *ret_map);
CUresult cuda_find_tpcs(struct dev_ctx *ctx, struct dev_tpc_map *ret_map);
void cuda_sensors(struct device *dev, uint32_t ret_value[SENSOR_NUM]);
uint64_t cuda_busy_ns(struct device *dev, uint64_t *ret_memory_ns);
uint64_t cuda_overhead(struct device *dev);
bool cuda_footprint(struct device *dev, uint64_t *ret_least, uint64_t *ret_most);
unsigned cuda_holders(struct device *dev, struct device_holder *ret, unsigned n);

#endif
