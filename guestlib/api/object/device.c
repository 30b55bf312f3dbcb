/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about the device, all answered in the guest (see session_open()). */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "object/context.h"
#include "object/device.h"
#include "core/process.h"
#include "object/refuse.h"

static int attribute(CUdevice_attribute attr)
{
	return guest_process.device.attributes[attr];
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult r = guest_status();

	if (r)
		return r;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	r = device_check(ordinal);
	if (r == CUDA_SUCCESS)
		*device = ordinal;
	return r;
}

CUresult CUDAAPI cuDeviceGetCount(int *count)
{
	CUresult r = guest_status();

	if (r)
		return r;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = (int)guest_process.n_devices;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int len, CUdevice dev)
{
	CUresult r = device_check(dev);

	if (r)
		return r;
	if (!name || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, (size_t)len, "%s", guest_process.device.name);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	CUresult r = device_check(dev);

	if (r)
		return r;
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(uuid, guest_process.device.uuid, sizeof(*uuid));
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	return cuDeviceGetUuid_v2(uuid, dev);
}

CUresult CUDAAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	CUresult r = device_check(dev);

	if (r)
		return r;
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = guest_process.device.memory_bytes;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	CUresult r = device_check(dev);

	if (r)
		return r;
	if (!pi || (int)attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute(attrib) == INT_MIN) {
		guest_refuse_attribute("cuDeviceGetAttribute", (int)attrib);
		return CUDA_ERROR_INVALID_VALUE;
	}
	*pi = attribute(attrib);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	CUresult r = device_check(dev);

	if (r)
		return r;
	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	*major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
	*minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
	CUresult r = device_check(dev);

	if (r)
		return r;
	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	*prop = (CUdevprop){
		.maxThreadsPerBlock =
			attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
		.maxThreadsDim = {attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X),
				  attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
				  attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)},
		.maxGridSize = {attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X),
				attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
				attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)},
		.sharedMemPerBlock =
			attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
		.totalConstantMemory =
			attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
		.SIMDWidth = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE),
		.memPitch = attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH),
		.regsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
		.clockRate = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
		.textureAlign = attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT),
	};
	return CUDA_SUCCESS;
}

#define PCI_TEXT 13 /* 0000:00:00.0 and its end */

CUresult CUDAAPI cuDeviceGetPCIBusId(char *text, int len, CUdevice dev)
{
	CUresult r = device_check(dev);

	if (r)
		return r;
	if (!text || len < PCI_TEXT)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(text, (size_t)len, "%04x:%02x:%02x.0",
		 (unsigned)attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
		 (unsigned)attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
		 (unsigned)attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
	return CUDA_SUCCESS;
}

/* "[domain]:[bus]:[device].[function]" with domain and function optional. */
static bool parse_pci(const char *text, unsigned ret_addr[3])
{
	unsigned f = 0;
	int end = 0;

	if (sscanf(text, "%x:%x:%x.%x%n", &ret_addr[0], &ret_addr[1], &ret_addr[2], &f,
		   &end) == 4)
		return !text[end] && f == 0;
	if (sscanf(text, "%x:%x:%x%n", &ret_addr[0], &ret_addr[1], &ret_addr[2], &end) ==
	    3)
		return !text[end];
	ret_addr[0] = 0;
	if (sscanf(text, "%x:%x.%x%n", &ret_addr[1], &ret_addr[2], &f, &end) == 3)
		return !text[end] && f == 0;
	return sscanf(text, "%x:%x%n", &ret_addr[1], &ret_addr[2], &end) == 2 &&
	       !text[end];
}

CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice *dev, const char *text)
{
	CUresult r = guest_status();
	unsigned addr[3];

	if (r)
		return r;
	if (!dev || !text || !parse_pci(text, addr))
		return CUDA_ERROR_INVALID_VALUE;
	if ((int)addr[0] != attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) ||
	    (int)addr[1] != attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) ||
	    (int)addr[2] != attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID))
		return CUDA_ERROR_INVALID_DEVICE;
	*dev = 0;
	return CUDA_SUCCESS;
}

/* ---- peers: there is one device, and it is no peer of itself ---- */

CUresult CUDAAPI cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer)
{
	CUresult r = device_check(dev);

	if (r)
		return r;
	if (!can)
		return CUDA_ERROR_INVALID_VALUE;
	r = device_check(peer);
	if (r == CUDA_SUCCESS)
		*can = 0;
	return r;
}

CUresult CUDAAPI cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attr,
					 CUdevice src, CUdevice dst)
{
	CUresult r = guest_status();

	if (r)
		return r;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	r = device_check(src);
	if (r == CUDA_SUCCESS)
		r = device_check(dst);
	/* Source and destination must differ, and with one device they cannot. */
	return r ? r : CUDA_ERROR_INVALID_DEVICE;
}

/* No two devices, so nothing between them. */
CUresult CUDAAPI cuDeviceGetP2PAtomicCapabilities(unsigned int *capabilities,
						  const CUatomicOperation *operations,
						  unsigned int count, CUdevice src,
						  CUdevice dst)
{
	CUresult r = device_check(src);

	if (r == CUDA_SUCCESS)
		r = device_check(dst);
	return r ? r : CUDA_ERROR_INVALID_DEVICE;
}

/* Host memory is not mapped on the device: no atomic operation reaches it. */
CUresult CUDAAPI cuDeviceGetHostAtomicCapabilities(unsigned int *capabilities,
						   const CUatomicOperation *operations,
						   unsigned int count, CUdevice dev)
{
	CUresult r = device_check(dev);
	unsigned i;

	if (r)
		return r;
	if (!capabilities || !operations || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < count; i++)
		capabilities[i] = 0;
	return CUDA_SUCCESS;
}

static CUresult check_peer_ctx(CUcontext peer)
{
	CUresult r = guest_status();

	if (r)
		return r;
	return guest_handle_valid((uintptr_t)peer, HANDLE_CONTEXT) &&
			       ctx_lookup(peer) != ctx_lookup(NULL)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	CUresult r = check_peer_ctx(peer);

	if (r)
		return r;
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peer)
{
	CUresult r = check_peer_ctx(peer);

	return r ? r : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

/* LUIDs name devices on Windows. */
CUresult CUDAAPI cuDeviceGetLuid(char *luid, unsigned int *node_mask, CUdevice dev)
{
	CUresult r = device_check(dev);

	return r ? r : CUDA_ERROR_NOT_SUPPORTED;
}

/* Bytes of one element of a format; 0 for formats that linear textures do not have. */
static size_t format_bytes(CUarray_format format)
{
	switch ((int)format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	}
	return 0;
}

#define LINEAR_TEXELS_MAX ((size_t)1 << 30)
#define LINEAR_BYTES_MAX  ((size_t)1 << 32)

CUresult CUDAAPI cuDeviceGetTexture1DLinearMaxWidth(size_t *width, CUarray_format format,
						    unsigned channels, CUdevice dev)
{
	CUresult r = device_check(dev);

	if (r)
		return r;
	if (!width || !format_bytes(format) ||
	    (channels != 1 && channels != 2 && channels != 4))
		return CUDA_ERROR_INVALID_VALUE;
	/* Not the attribute, which is a quarter of it: measured on an H200. */
	*width = MIN(LINEAR_TEXELS_MAX,
		     LINEAR_BYTES_MAX / (format_bytes(format) * channels));
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type,
						CUdevice dev)
{
	CUresult r = device_check(dev);

	if (r)
		return r;
	if (!pi || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
		return CUDA_ERROR_INVALID_VALUE;
	*pi = 0;
	return CUDA_SUCCESS;
}
