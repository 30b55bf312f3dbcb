/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binary interface of libnvidia-ml.so.1 as far as it is answered here, declared from
 * its public description: names, codes and layouts. Structures keep the names of that
 * interface without its typedefs.
 */
#ifndef WEFT_NVML_ABI_H
#define WEFT_NVML_ABI_H

#include <assert.h>
#include <stdint.h>

#define NVML_API __attribute__((visibility("default")))

enum nvml_return {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_TIMEOUT = 10,
	NVML_ERROR_FUNCTION_NOT_FOUND = 13,
	NVML_ERROR_GPU_IS_LOST = 15,
	NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
	NVML_ERROR_MEMORY = 20,
	NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_ERROR_UNKNOWN = 999,
};

enum {
	NVML_TEMPERATURE_GPU = 0,
	NVML_CLOCK_GRAPHICS = 0,
	NVML_CLOCK_SM = 1,
	NVML_CLOCK_MEM = 2,
	NVML_CLOCK_VIDEO = 3,
	NVML_CLOCK_COUNT = 4,
	NVML_CLOCK_ID_CURRENT = 0,
	NVML_CLOCK_ID_COUNT = 4,
	NVML_VALUE_TYPE_UNSIGNED_INT = 1,
	NVML_PCI_CLASS_DISPLAY = 3,
	NVML_PCI_SUBCLASS_3D = 2,
	NVML_PROCESS_MODE_COMPUTE = 0,
	NVML_PROCESS_MODE_GRAPHICS = 1,
	NVML_PROCESS_MODE_COUNT = 3,
	NVML_TEMPERATURE_THRESHOLD_COUNT = 8,
	NVML_FEATURE_DISABLED = 0,
	NVML_FEATURE_ENABLED = 1,
	NVML_COMPUTEMODE_DEFAULT = 0,
	NVML_P2P_STATUS_OK = 0,
	NVML_P2P_CAPS_INDEX_PROP = 5, /* the last capability */
	NVML_PSTATE_0 = 0,
	NVML_BRAND_UNKNOWN = 0,
	NVML_DEVICE_ARCH_VOLTA = 5,
	NVML_DEVICE_ARCH_TURING = 6,
	NVML_DEVICE_ARCH_AMPERE = 7,
	NVML_DEVICE_ARCH_ADA = 8,
	NVML_DEVICE_ARCH_HOPPER = 9,
	NVML_DEVICE_ARCH_BLACKWELL = 10,
	NVML_DEVICE_ARCH_UNKNOWN = -1,
};

/* A value that is not available, in fields that have no code of their own. */
#define NVML_NO_VALUE       (~0ull)
#define NVML_NO_INSTANCE    0xffffffffu
#define NVML_MEMORY_V2      (sizeof(struct nvml_memory_v2) | 2u << 24)
#define NVML_UUID_TEXT      80
#define NVML_INIT_FLAGS_ALL 3u /* no GPUs is fine; do not attach */

struct nvml_device; /* opaque to programs; there is one */
struct nvml_event_set;

struct nvml_pci_info {
	char bus_id_legacy[16];
	unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
	char bus_id[32];
};
static_assert(sizeof(struct nvml_pci_info) == 68, "ABI");

struct nvml_pci_info_v2 {
	char bus_id[16];
	unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
	unsigned reserved[4];
};
static_assert(sizeof(struct nvml_pci_info_v2) == 52, "ABI");

struct nvml_memory {
	unsigned long long total, free, used;
};

struct nvml_memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};
static_assert(sizeof(struct nvml_memory_v2) == 40, "ABI");

struct nvml_utilization {
	unsigned gpu, memory; /* percent */
};

struct nvml_temperature_v1 {
	unsigned version, sensor;
	int celsius;
};
#define NVML_TEMPERATURE_V1 (sizeof(struct nvml_temperature_v1) | 1u << 24)
static_assert(sizeof(struct nvml_temperature_v1) == 12, "ABI");

struct nvml_pci_info_ext {
	unsigned version;
	unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
	unsigned base_class, sub_class;
	char bus_id[32];
};
#define NVML_PCI_INFO_EXT_V1 (sizeof(struct nvml_pci_info_ext) | 1u << 24)
static_assert(sizeof(struct nvml_pci_info_ext) == 64, "ABI");

struct nvml_addressing_mode {
	unsigned version, value;
};
#define NVML_ADDRESSING_MODE_V1 (sizeof(struct nvml_addressing_mode) | 1u << 24)

struct nvml_field_value {
	unsigned field, scope;
	long long timestamp_us, latency_us;
	unsigned value_type, result;
	unsigned long long value; /* a union; the small types are its first bytes */
};
static_assert(sizeof(struct nvml_field_value) == 40, "ABI");

struct nvml_process_utilization {
	unsigned pid;
	unsigned long long timestamp_us;
	unsigned sm, memory, encoder, decoder; /* percent */
};
static_assert(sizeof(struct nvml_process_utilization) == 32, "ABI");

struct nvml_process_detail {
	unsigned pid;
	unsigned long long used_memory;
	unsigned gpu_instance, compute_instance;
	unsigned long long protected_memory;
};
static_assert(sizeof(struct nvml_process_detail) == 32, "ABI");

struct nvml_process_detail_list {
	unsigned version, mode, count;
	struct nvml_process_detail *processes;
};
#define NVML_PROCESS_DETAIL_LIST_V1 (sizeof(struct nvml_process_detail_list) | 1u << 24)

/* Entry of the list that nvidia-smi gets from its private table. */
struct nvml_process_named {
	struct nvml_process_detail detail;
	char name[4096];
};
static_assert(sizeof(struct nvml_process_named) == 4128, "ABI");

/* Use of the device by one process at one moment: SM, memory, encoder, decoder, JPEG,
 * optical flow. */
#define NVML_SAMPLE_KINDS 6
struct nvml_process_samples {
	unsigned long long timestamp_us;
	struct {
		unsigned long long percent;
		unsigned pid; /* NVML_NO_PROCESS: not told */
		unsigned unknown[17];
	} of[NVML_SAMPLE_KINDS];
};
#define NVML_NO_PROCESS 0xffffffffu
static_assert(sizeof(struct nvml_process_samples) == 488, "ABI");

struct nvml_process_v1 {
	unsigned pid;
	unsigned long long used_memory;
};

struct nvml_process {
	unsigned pid;
	unsigned long long used_memory;
	unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(struct nvml_process) == 24, "ABI");

#endif
