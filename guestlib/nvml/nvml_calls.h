/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of libnvidia-ml.so.1 that are answered; nvml_none.c has the others. */
#ifndef WEFT_NVML_CALLS_H
#define WEFT_NVML_CALLS_H

#include "nvml_abi.h"

/* ---- nvml_system.c ---- */

NVML_API enum nvml_return nvmlInit_v2(void);
NVML_API enum nvml_return nvmlInit(void);
NVML_API enum nvml_return nvmlInitWithFlags(unsigned flags);
NVML_API enum nvml_return nvmlShutdown(void);
NVML_API const char *nvmlErrorString(enum nvml_return r);
NVML_API enum nvml_return nvmlSystemGetDriverVersion(char *version, unsigned length);
NVML_API enum nvml_return nvmlSystemGetNVMLVersion(char *version, unsigned length);
NVML_API enum nvml_return nvmlSystemGetCudaDriverVersion(int *version);
NVML_API enum nvml_return nvmlSystemGetCudaDriverVersion_v2(int *version);
NVML_API enum nvml_return nvmlSystemGetProcessName(unsigned pid, char *name,
						   unsigned length);

/* ---- nvml_device.c ---- */

NVML_API enum nvml_return nvmlDeviceGetCount_v2(unsigned *count);
NVML_API enum nvml_return nvmlDeviceGetCount(unsigned *count);
NVML_API enum nvml_return nvmlDeviceGetHandleByIndex_v2(unsigned index,
							struct nvml_device **dev);
NVML_API enum nvml_return nvmlDeviceGetHandleByIndex(unsigned index,
						     struct nvml_device **dev);
NVML_API enum nvml_return nvmlDeviceGetHandleByUUID(const char *uuid,
						    struct nvml_device **dev);
NVML_API enum nvml_return nvmlDeviceGetHandleByPciBusId_v2(const char *text,
							   struct nvml_device **dev);
NVML_API enum nvml_return nvmlDeviceGetHandleByPciBusId(const char *text,
							struct nvml_device **dev);
NVML_API enum nvml_return nvmlDeviceGetName(const struct nvml_device *dev, char *name,
					    unsigned length);
NVML_API enum nvml_return nvmlDeviceGetUUID(const struct nvml_device *dev, char *uuid,
					    unsigned length);
NVML_API enum nvml_return nvmlDeviceGetIndex(const struct nvml_device *dev,
					     unsigned *index);
/* NCCL asks for each pair of devices, one with itself included, and wants an answer. */
NVML_API enum nvml_return nvmlDeviceGetP2PStatus(const struct nvml_device *a,
						 const struct nvml_device *b,
						 unsigned capability, unsigned *status);
NVML_API enum nvml_return nvmlDeviceGetMinorNumber(const struct nvml_device *dev,
						   unsigned *minor);
NVML_API enum nvml_return nvmlDeviceGetPersistenceMode(const struct nvml_device *dev,
						       unsigned *mode);
NVML_API enum nvml_return nvmlDeviceGetComputeMode(const struct nvml_device *dev,
						   unsigned *mode);
NVML_API enum nvml_return nvmlDeviceGetDisplayMode(const struct nvml_device *dev,
						   unsigned *mode);
NVML_API enum nvml_return nvmlDeviceGetDisplayActive(const struct nvml_device *dev,
						     unsigned *on);
NVML_API enum nvml_return nvmlDeviceGetMultiGpuBoard(const struct nvml_device *dev,
						     unsigned *yes);
NVML_API enum nvml_return nvmlDeviceGetMaxMigDeviceCount(const struct nvml_device *dev,
							 unsigned *count);
NVML_API enum nvml_return nvmlDeviceIsMigDeviceHandle(const struct nvml_device *dev,
						      unsigned *yes);
NVML_API enum nvml_return nvmlDeviceGetAccountingMode(const struct nvml_device *dev,
						      unsigned *mode);
NVML_API enum nvml_return nvmlDeviceGetAddressingMode(const struct nvml_device *dev,
						      struct nvml_addressing_mode *mode);
NVML_API enum nvml_return nvmlDeviceGetEccMode(const struct nvml_device *dev,
					       unsigned *current, unsigned *pending);
NVML_API enum nvml_return nvmlDeviceGetBrand(const struct nvml_device *dev,
					     unsigned *brand);
NVML_API enum nvml_return nvmlDeviceGetPciInfo_v3(const struct nvml_device *dev,
						  struct nvml_pci_info *pci);
NVML_API enum nvml_return nvmlDeviceGetPciInfoExt(const struct nvml_device *dev,
						  struct nvml_pci_info_ext *ext);
NVML_API enum nvml_return nvmlDeviceGetPciInfo_v2(const struct nvml_device *dev,
						  struct nvml_pci_info_v2 *old);
NVML_API enum nvml_return nvmlDeviceGetPciInfo(const struct nvml_device *dev,
					       struct nvml_pci_info_v2 *old);
NVML_API enum nvml_return nvmlDeviceGetCudaComputeCapability(
	const struct nvml_device *dev, int *major, int *minor);
NVML_API enum nvml_return nvmlDeviceGetArchitecture(const struct nvml_device *dev,
						    int *arch);
NVML_API enum nvml_return nvmlDeviceGetMemoryBusWidth(const struct nvml_device *dev,
						      unsigned *bits);
NVML_API enum nvml_return nvmlDeviceGetMemoryInfo(const struct nvml_device *dev,
						  struct nvml_memory *mem);
NVML_API enum nvml_return nvmlDeviceGetMemoryInfo_v2(const struct nvml_device *dev,
						     struct nvml_memory_v2 *mem);
NVML_API enum nvml_return nvmlDeviceGetUtilizationRates(const struct nvml_device *dev,
							struct nvml_utilization *u);

/* ---- nvml_sensor.c ---- */

NVML_API enum nvml_return nvmlDeviceGetTemperature(const struct nvml_device *dev,
						   unsigned which, unsigned *celsius);
NVML_API enum nvml_return nvmlDeviceGetTemperatureV(const struct nvml_device *dev,
						    struct nvml_temperature_v1 *t);
NVML_API enum nvml_return nvmlDeviceGetTemperatureThreshold(const struct nvml_device *dev,
							    unsigned which,
							    unsigned *celsius);
NVML_API enum nvml_return nvmlDeviceGetPowerUsage(const struct nvml_device *dev,
						  unsigned *mw);
NVML_API enum nvml_return nvmlDeviceGetEnforcedPowerLimit(const struct nvml_device *dev,
							  unsigned *mw);
NVML_API enum nvml_return nvmlDeviceGetPowerManagementLimit(const struct nvml_device *dev,
							    unsigned *mw);
NVML_API enum nvml_return nvmlDeviceGetPowerManagementDefaultLimit(
	const struct nvml_device *dev, unsigned *mw);
NVML_API enum nvml_return nvmlDeviceGetPowerManagementLimitConstraints(
	const struct nvml_device *dev, unsigned *min_mw, unsigned *max_mw);
NVML_API enum nvml_return nvmlDeviceGetFanSpeed(const struct nvml_device *dev,
						unsigned *percent);
NVML_API enum nvml_return nvmlDeviceGetPerformanceState(const struct nvml_device *dev,
							unsigned *state);
NVML_API enum nvml_return nvmlDeviceGetPowerState(const struct nvml_device *dev,
						  unsigned *state);
NVML_API enum nvml_return nvmlDeviceGetClockInfo(const struct nvml_device *dev,
						 unsigned type, unsigned *mhz);
NVML_API enum nvml_return nvmlDeviceGetMaxClockInfo(const struct nvml_device *dev,
						    unsigned type, unsigned *mhz);
NVML_API enum nvml_return nvmlDeviceGetClock(const struct nvml_device *dev, unsigned type,
					     unsigned id, unsigned *mhz);
NVML_API enum nvml_return nvmlDeviceGetCurrPcieLinkGeneration(
	const struct nvml_device *dev, unsigned *generation);
NVML_API enum nvml_return nvmlDeviceGetCurrPcieLinkWidth(const struct nvml_device *dev,
							 unsigned *width);
NVML_API enum nvml_return nvmlDeviceGetMaxPcieLinkGeneration(
	const struct nvml_device *dev, unsigned *generation);
NVML_API enum nvml_return nvmlDeviceGetGpuMaxPcieLinkGeneration(
	const struct nvml_device *dev, unsigned *generation);
NVML_API enum nvml_return nvmlDeviceGetMaxPcieLinkWidth(const struct nvml_device *dev,
							unsigned *width);
NVML_API enum nvml_return nvmlDeviceGetCurrentClocksEventReasons(
	const struct nvml_device *dev, unsigned long long *reasons);
NVML_API enum nvml_return nvmlDeviceGetCurrentClocksThrottleReasons(
	const struct nvml_device *dev, unsigned long long *reasons);

NVML_API enum nvml_return nvmlDeviceGetTotalEnergyConsumption(
	const struct nvml_device *dev, unsigned long long *mj);
NVML_API enum nvml_return nvmlDeviceGetPowerManagementMode(const struct nvml_device *dev,
							   unsigned *mode);

NVML_API enum nvml_return nvmlDeviceGetSupportedClocksEventReasons(
	const struct nvml_device *dev, unsigned long long *reasons);
NVML_API enum nvml_return nvmlDeviceGetSupportedClocksThrottleReasons(
	const struct nvml_device *dev, unsigned long long *reasons);
NVML_API enum nvml_return nvmlDeviceGetTotalEccErrors(const struct nvml_device *dev,
						      unsigned uncorrected, unsigned ever,
						      unsigned long long *count);

/* ---- nvml_field.c ---- */

NVML_API enum nvml_return nvmlDeviceGetFieldValues(const struct nvml_device *dev,
						   int count,
						   struct nvml_field_value *values);

/* ---- nvml_process.c ---- */

NVML_API enum nvml_return nvmlDeviceGetComputeRunningProcesses_v3(
	const struct nvml_device *dev, unsigned *count, struct nvml_process *infos);
NVML_API enum nvml_return nvmlDeviceGetComputeRunningProcesses_v2(
	const struct nvml_device *dev, unsigned *count, struct nvml_process *infos);
NVML_API enum nvml_return nvmlDeviceGetComputeRunningProcesses(
	const struct nvml_device *dev, unsigned *count, struct nvml_process_v1 *infos);
NVML_API enum nvml_return nvmlDeviceGetGraphicsRunningProcesses_v3(
	const struct nvml_device *dev, unsigned *count, struct nvml_process *infos);
NVML_API enum nvml_return nvmlDeviceGetGraphicsRunningProcesses_v2(
	const struct nvml_device *dev, unsigned *count, struct nvml_process *infos);
NVML_API enum nvml_return nvmlDeviceGetGraphicsRunningProcesses(
	const struct nvml_device *dev, unsigned *count, struct nvml_process_v1 *infos);
NVML_API enum nvml_return nvmlDeviceGetMPSComputeRunningProcesses_v3(
	const struct nvml_device *dev, unsigned *count, struct nvml_process *infos);
NVML_API enum nvml_return nvmlDeviceGetRunningProcessDetailList(
	const struct nvml_device *dev, struct nvml_process_detail_list *out);
NVML_API enum nvml_return nvmlDeviceGetProcessUtilization(
	const struct nvml_device *dev, struct nvml_process_utilization *samples,
	unsigned *count, unsigned long long since_us);

/* For nvml_table.c: as nvmlDeviceGetComputeRunningProcesses() and ...Graphics..., with names;
 * and none. */
enum nvml_return nvml_compute_processes(const struct nvml_device *dev, unsigned *count,
					struct nvml_process_named *infos);
enum nvml_return nvml_graphics_processes(const struct nvml_device *dev, unsigned *count,
					 struct nvml_process_named *infos);
enum nvml_return nvml_no_processes(const struct nvml_device *dev, unsigned *count,
				   struct nvml_process_named *infos);

/* ---- nvml_event.c ---- */

NVML_API enum nvml_return nvmlEventSetCreate(struct nvml_event_set **set);
NVML_API enum nvml_return nvmlEventSetFree(struct nvml_event_set *set);
NVML_API enum nvml_return nvmlEventSetWait_v2(struct nvml_event_set *set, void *data,
					      unsigned timeout_ms);
NVML_API enum nvml_return nvmlEventSetWait(struct nvml_event_set *set, void *data,
					   unsigned timeout_ms);
NVML_API enum nvml_return nvmlDeviceGetSupportedEventTypes(const struct nvml_device *dev,
							   unsigned long long *types);
NVML_API enum nvml_return nvmlDeviceRegisterEvents(const struct nvml_device *dev,
						   unsigned long long types,
						   struct nvml_event_set *set);

/* ---- nvml_table.c ---- */

NVML_API enum nvml_return nvmlInternalGetExportTable(const void **table,
						     const uint8_t *uuid);

#endif
