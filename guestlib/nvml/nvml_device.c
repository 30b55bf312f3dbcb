/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: the device, what it is and how it is. */
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/macros.h"
#include "core/device_visible.h"
#include "nvml_attr.h"
#include "nvml_calls.h"
#include "nvml_session.h"

/* ---- finding it ---- */

enum nvml_return nvmlDeviceGetCount_v2(unsigned *count)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_session_info(&info);

	if (r)
		return r;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = info->device_count ? 1 : 0;
	return NVML_SUCCESS;
}

enum nvml_return nvmlDeviceGetCount(unsigned *count)
{
	return nvmlDeviceGetCount_v2(count);
}

enum nvml_return nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvml_device **dev)
{
	unsigned count;
	enum nvml_return r = nvmlDeviceGetCount_v2(&count);

	if (r)
		return r;
	if (!dev || index >= count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*dev = nvml_the_device();
	return NVML_SUCCESS;
}

enum nvml_return nvmlDeviceGetHandleByIndex(unsigned index, struct nvml_device **dev)
{
	return nvmlDeviceGetHandleByIndex_v2(index, dev);
}

enum nvml_return nvmlDeviceGetHandleByUUID(const char *uuid, struct nvml_device **dev)
{
	const struct session_open_rep *info;
	char text[DEVICE_UUID_TEXT];
	enum nvml_return r = nvml_session_info(&info);

	if (r)
		return r;
	if (!uuid || !dev)
		return NVML_ERROR_INVALID_ARGUMENT;
	device_uuid_text(info->uuid, text);
	if (!info->device_count || strcasecmp(uuid, text) != 0)
		return NVML_ERROR_NOT_FOUND;
	*dev = nvml_the_device();
	return NVML_SUCCESS;
}

static void pci_address(const struct session_open_rep *info, unsigned ret_addr[3])
{
	ret_addr[0] = (unsigned)nvml_attribute(info, ATTR_PCI_DOMAIN_ID, 0);
	ret_addr[1] = (unsigned)nvml_attribute(info, ATTR_PCI_BUS_ID, 0);
	ret_addr[2] = (unsigned)nvml_attribute(info, ATTR_PCI_DEVICE_ID, 0);
}

enum nvml_return nvmlDeviceGetHandleByPciBusId_v2(const char *text,
						  struct nvml_device **dev)
{
	const struct session_open_rep *info;
	unsigned ours[3], asked[3] = {0}, function;
	enum nvml_return r = nvml_session_info(&info);

	if (r)
		return r;
	if (!text || !dev)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (sscanf(text, "%x:%x:%x.%x", &asked[0], &asked[1], &asked[2], &function) < 3) {
		asked[0] = 0;
		if (sscanf(text, "%x:%x.%x", &asked[1], &asked[2], &function) < 2)
			return NVML_ERROR_INVALID_ARGUMENT;
	}
	pci_address(info, ours);
	if (!info->device_count || memcmp(ours, asked, sizeof(ours)) != 0)
		return NVML_ERROR_NOT_FOUND;
	*dev = nvml_the_device();
	return NVML_SUCCESS;
}

enum nvml_return nvmlDeviceGetHandleByPciBusId(const char *text, struct nvml_device **dev)
{
	return nvmlDeviceGetHandleByPciBusId_v2(text, dev);
}

/* ---- what it is ---- */

enum nvml_return nvmlDeviceGetName(const struct nvml_device *dev, char *name,
				   unsigned length)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_enter(dev, name, &info);

	return r ? r : nvml_copy_text(name, length, (const char *)info->name);
}

enum nvml_return nvmlDeviceGetUUID(const struct nvml_device *dev, char *uuid,
				   unsigned length)
{
	const struct session_open_rep *info;
	char text[DEVICE_UUID_TEXT];
	enum nvml_return r = nvml_enter(dev, uuid, &info);

	if (r)
		return r;
	device_uuid_text(info->uuid, text);
	return nvml_copy_text(uuid, length, text);
}

/* An unsigned value that is the same for every device of ours. */
static enum nvml_return constant(const struct nvml_device *dev, unsigned *out,
				 unsigned value)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_enter(dev, out, &info);

	if (r == NVML_SUCCESS)
		*out = value;
	return r;
}

enum nvml_return nvmlDeviceGetIndex(const struct nvml_device *dev, unsigned *index)
{
	return constant(dev, index, 0);
}

/* One device reaches its own memory in every way. */
enum nvml_return nvmlDeviceGetP2PStatus(const struct nvml_device *a,
					const struct nvml_device *b, unsigned capability,
					unsigned *status)
{
	unsigned unused = 0;
	enum nvml_return r = constant(b, &unused, 0);

	if (r == NVML_SUCCESS && capability > NVML_P2P_CAPS_INDEX_PROP)
		r = NVML_ERROR_INVALID_ARGUMENT;
	return r ? r : constant(a, status, NVML_P2P_STATUS_OK);
}

enum nvml_return nvmlDeviceGetMinorNumber(const struct nvml_device *dev, unsigned *minor)
{
	return constant(dev, minor, 0);
}

enum nvml_return nvmlDeviceGetPersistenceMode(const struct nvml_device *dev,
					      unsigned *mode)
{
	return constant(dev, mode, NVML_FEATURE_ENABLED);
}

enum nvml_return nvmlDeviceGetComputeMode(const struct nvml_device *dev, unsigned *mode)
{
	return constant(dev, mode, NVML_COMPUTEMODE_DEFAULT);
}

enum nvml_return nvmlDeviceGetDisplayMode(const struct nvml_device *dev, unsigned *mode)
{
	return constant(dev, mode, NVML_FEATURE_DISABLED);
}

enum nvml_return nvmlDeviceGetDisplayActive(const struct nvml_device *dev, unsigned *on)
{
	return constant(dev, on, NVML_FEATURE_DISABLED);
}

/* One GPU on its board, whole, with its usual way to memory, nothing accounted. */
enum nvml_return nvmlDeviceGetMultiGpuBoard(const struct nvml_device *dev, unsigned *yes)
{
	return constant(dev, yes, 0);
}

enum nvml_return nvmlDeviceGetMaxMigDeviceCount(const struct nvml_device *dev,
						unsigned *count)
{
	return constant(dev, count, 0);
}

enum nvml_return nvmlDeviceIsMigDeviceHandle(const struct nvml_device *dev, unsigned *yes)
{
	return constant(dev, yes, 0);
}

enum nvml_return nvmlDeviceGetAccountingMode(const struct nvml_device *dev,
					     unsigned *mode)
{
	return constant(dev, mode, NVML_FEATURE_DISABLED);
}

enum nvml_return nvmlDeviceGetAddressingMode(const struct nvml_device *dev,
					     struct nvml_addressing_mode *mode)
{
	enum nvml_return r = constant(dev, mode ? &mode->value : NULL, 0);

	if (r == NVML_SUCCESS && mode->version != NVML_ADDRESSING_MODE_V1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	return r;
}

enum nvml_return nvmlDeviceGetEccMode(const struct nvml_device *dev, unsigned *current,
				      unsigned *pending)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_enter(dev, current, &info);
	int on;

	if (r)
		return r;
	if (!pending)
		return NVML_ERROR_INVALID_ARGUMENT;
	on = nvml_attribute(info, ATTR_ECC_ENABLED, -1);
	if (on < 0)
		return NVML_ERROR_NOT_SUPPORTED;
	*current = *pending = on ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
	return NVML_SUCCESS;
}

static void fill_pci(const struct session_open_rep *info, struct nvml_pci_info *pci)
{
	unsigned a[3];

	pci_address(info, a);
	memset(pci, 0, sizeof(*pci));
	snprintf(pci->bus_id, sizeof(pci->bus_id), "%08X:%02X:%02X.0", a[0], a[1] & 0xff,
		 a[2] & 0xff);
	snprintf(pci->bus_id_legacy, sizeof(pci->bus_id_legacy), "%04X:%02X:%02X.0",
		 a[0] & 0xffff, a[1] & 0xff, a[2] & 0xff);
	pci->domain = a[0];
	pci->bus = a[1];
	pci->device = a[2];
	pci->pci_device_id = (unsigned)nvml_attribute(info, ATTR_GPU_PCI_DEVICE_ID, 0);
	pci->pci_subsystem_id =
		(unsigned)nvml_attribute(info, ATTR_GPU_PCI_SUBSYSTEM_ID, 0);
}

enum nvml_return nvmlDeviceGetPciInfo_v3(const struct nvml_device *dev,
					 struct nvml_pci_info *pci)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_enter(dev, pci, &info);

	if (r == NVML_SUCCESS)
		fill_pci(info, pci);
	return r;
}

enum nvml_return nvmlDeviceGetPciInfoExt(const struct nvml_device *dev,
					 struct nvml_pci_info_ext *ext)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_enter(dev, ext, &info);
	struct nvml_pci_info pci;

	if (r)
		return r;
	if (ext->version != NVML_PCI_INFO_EXT_V1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	fill_pci(info, &pci);
	ext->domain = pci.domain;
	ext->bus = pci.bus;
	ext->device = pci.device;
	ext->pci_device_id = pci.pci_device_id;
	ext->pci_subsystem_id = pci.pci_subsystem_id;
	ext->base_class = NVML_PCI_CLASS_DISPLAY;
	ext->sub_class = NVML_PCI_SUBCLASS_3D;
	memcpy(ext->bus_id, pci.bus_id, sizeof(ext->bus_id));
	return NVML_SUCCESS;
}

enum nvml_return nvmlDeviceGetPciInfo_v2(const struct nvml_device *dev,
					 struct nvml_pci_info_v2 *old)
{
	struct nvml_pci_info pci;
	const struct session_open_rep *info;
	enum nvml_return r = nvml_enter(dev, old, &info);

	if (r)
		return r;
	fill_pci(info, &pci);
	memset(old, 0, sizeof(*old));
	memcpy(old->bus_id, pci.bus_id_legacy, sizeof(old->bus_id));
	old->domain = pci.domain;
	old->bus = pci.bus;
	old->device = pci.device;
	old->pci_device_id = pci.pci_device_id;
	old->pci_subsystem_id = pci.pci_subsystem_id;
	return NVML_SUCCESS;
}

enum nvml_return nvmlDeviceGetPciInfo(const struct nvml_device *dev,
				      struct nvml_pci_info_v2 *old)
{
	return nvmlDeviceGetPciInfo_v2(dev, old);
}

enum nvml_return nvmlDeviceGetCudaComputeCapability(const struct nvml_device *dev,
						    int *major, int *minor)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_enter(dev, major, &info);

	if (r)
		return r;
	if (!minor)
		return NVML_ERROR_INVALID_ARGUMENT;
	*major = nvml_attribute(info, ATTR_COMPUTE_CAPABILITY_MAJOR, 0);
	*minor = nvml_attribute(info, ATTR_COMPUTE_CAPABILITY_MINOR, 0);
	return NVML_SUCCESS;
}

enum nvml_return nvmlDeviceGetArchitecture(const struct nvml_device *dev, int *arch)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_enter(dev, arch, &info);
	int major, minor;

	if (r)
		return r;
	major = nvml_attribute(info, ATTR_COMPUTE_CAPABILITY_MAJOR, 0);
	minor = nvml_attribute(info, ATTR_COMPUTE_CAPABILITY_MINOR, 0);
	if (major == 7)
		*arch = minor >= 5 ? NVML_DEVICE_ARCH_TURING : NVML_DEVICE_ARCH_VOLTA;
	else if (major == 8)
		*arch = minor >= 9 ? NVML_DEVICE_ARCH_ADA : NVML_DEVICE_ARCH_AMPERE;
	else if (major == 9)
		*arch = NVML_DEVICE_ARCH_HOPPER;
	else
		*arch = major >= 10 ? NVML_DEVICE_ARCH_BLACKWELL
				    : NVML_DEVICE_ARCH_UNKNOWN;
	return NVML_SUCCESS;
}

enum nvml_return nvmlDeviceGetMemoryBusWidth(const struct nvml_device *dev,
					     unsigned *bits)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_enter(dev, bits, &info);
	int width;

	if (r)
		return r;
	width = nvml_attribute(info, ATTR_GLOBAL_MEMORY_BUS_WIDTH, 0);
	if (width <= 0)
		return NVML_ERROR_NOT_SUPPORTED;
	*bits = (unsigned)width;
	return NVML_SUCCESS;
}

/* ---- how it is ---- */

static enum nvml_return status(const struct nvml_device *dev, const void *out,
			       struct device_status_rep *ret_st)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_enter(dev, out, &info);

	return r ? r : nvml_session_status(ret_st);
}

enum nvml_return nvmlDeviceGetMemoryInfo(const struct nvml_device *dev,
					 struct nvml_memory *mem)
{
	struct device_status_rep st;
	enum nvml_return r = status(dev, mem, &st);

	if (r)
		return r;
	mem->total = st.memory_total;
	mem->used = MIN(st.memory_used, st.memory_total);
	mem->free = mem->total - mem->used;
	return NVML_SUCCESS;
}

enum nvml_return nvmlDeviceGetMemoryInfo_v2(const struct nvml_device *dev,
					    struct nvml_memory_v2 *mem)
{
	struct nvml_memory plain;
	enum nvml_return r = nvmlDeviceGetMemoryInfo(dev, mem ? &plain : NULL);

	if (r)
		return r;
	if (mem->version != NVML_MEMORY_V2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	mem->total = plain.total;
	mem->used = plain.used;
	mem->free = plain.free;
	mem->reserved = 0;
	return NVML_SUCCESS;
}

enum nvml_return nvmlDeviceGetUtilizationRates(const struct nvml_device *dev,
					       struct nvml_utilization *u)
{
	struct device_status_rep st;
	enum nvml_return r = status(dev, u, &st);

	if (r)
		return r;
	u->gpu = st.gpu_percent;
	u->memory = st.memory_percent;
	return NVML_SUCCESS;
}
