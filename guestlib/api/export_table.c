/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: cuGetExportTable: what the CUDA runtime asks for beyond cuda.h
 *
 * Tables of function pointers named by UUID, found out by others and by watching the
 * runtime. Element 0 is the table's size in bytes where the runtime expects one. A table
 * that is not here is refused as the driver refuses one: INVALID_VALUE, and tools (NVBit)
 * stay disabled; what CUPTI asks for is in profiler.c, and says that there is no
 * profiling. One table that the driver has is missing here, the runtime's probe for a
 * shorter bootstrap (f8cff951-...): to its absence the runtime wants the answer
 * NOT_FOUND. A table that is present promises that every slot can be called.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "object/context.h"
#include "api/export_table.h"
#include "guest_uuid.h"
#include "core/integrity.h"
#include "code/module.h"
#include "core/process.h"
#include "object/refuse.h"

#define HOOK_ENTRIES_A 1024
#define HOOK_ENTRIES_B 14

/* ---- CUDART_INTERFACE ---- */

static CUresult cudart_load(CUmodule *module, const void *wrapper)
{
	return module_load_image(module, wrapper, SIZE_MAX, 0, NULL, NULL);
}

/* The primary context's handle; neither retains nor activates it. */
static CUresult cudart_primary(CUcontext *ret_ctx, CUdevice dev)
{
	CUresult r = guest_status();

	if (r)
		return r;
	if (!ret_ctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (!guest_has_device(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*ret_ctx = (CUcontext)(uintptr_t)ctx_primary()->handle;
	return CUDA_SUCCESS;
}

static CUresult cudart_load_ex(CUmodule *module, const void *wrapper, void *options,
			       void *values, unsigned n)
{
	return module_load_image(module, wrapper, SIZE_MAX, n, options, values);
}

static CUresult cudart_load_header(const void *header, CUmodule *module, void *options,
				   void *values, unsigned n)
{
	return module_load_image(module, header, SIZE_MAX, n, options, values);
}

UNKNOWN_SLOT(cudart_interface, 3)
UNKNOWN_SLOT(cudart_interface, 4)
UNKNOWN_SLOT(cudart_interface, 5)
UNKNOWN_SLOT(cudart_interface, 9)
UNKNOWN_SLOT(cudart_interface, 10)
UNKNOWN_SLOT(cudart_interface, 11)
UNKNOWN_SLOT(integrity_check, 2)
UNKNOWN_SLOT(context_checks, 1)

static CUresult slot_ok(void)
{
	return CUDA_SUCCESS;
}

static void slot_void(void)
{
}

static const table_slot cudart_interface[13] = {
	SIZE(13),
	SLOT(cudart_load),
	SLOT(cudart_primary),
	SLOT(cudart_interface_3),
	SLOT(cudart_interface_4),
	SLOT(cudart_interface_5),
	SLOT(cudart_load_ex),
	SLOT(slot_void), /* told that a module goes */
	SLOT(cudart_load_header),
	SLOT(cudart_interface_9),
	SLOT(cudart_interface_10),
	SLOT(cudart_interface_11),
	SLOT(slot_ok), /* load the PTX compiler: the host has it */
};

/*
 * ---- TOOLS_TLS: the calling thread's context; cuBLAS 13 keys its kernels by it ----
 */

static const table_slot tools_tls[4] = {SIZE(4), SLOT(slot_ok), SLOT(cuCtxGetCurrent),
					SLOT(slot_ok)};

/* ---- TOOLS_RUNTIME_CALLBACK_HOOKS: no tool ever subscribes ---- */

/* Zero means that no callback is enabled; the runtime reads and may write them. */
static uint64_t hooks_a[HOOK_ENTRIES_A + 2], hooks_b[HOOK_ENTRIES_B + 2];

static void hooks_get_a(void **ret_buf, size_t *ret_n)
{
	if (ret_buf)
		*ret_buf = hooks_a;
	if (ret_n)
		*ret_n = HOOK_ENTRIES_A;
}

static void hooks_get_b(void **ret_buf, size_t *ret_n)
{
	if (ret_buf)
		*ret_buf = hooks_b;
	if (ret_n)
		*ret_n = HOOK_ENTRIES_B;
}

static const table_slot tools_hooks[7] = {
	SIZE(7),       SLOT(slot_ok), SLOT(hooks_get_a), SLOT(slot_ok),
	SLOT(slot_ok), SLOT(slot_ok), SLOT(hooks_get_b),
};

/* ---- CONTEXT_LOCAL_STORAGE: no size word, ends with NULL ---- */

static const table_slot local_storage[4] = {
	SLOT(ctx_storage_put), SLOT(ctx_storage_delete), SLOT(ctx_storage_get), NULL};

/* ---- INTEGRITY_CHECK ---- */

static CUresult integrity_check(uint32_t runtime_version, uint64_t unix_seconds,
				uint64_t *ret_answer);

static const table_slot integrity_table[3] = {SIZE(3), SLOT(integrity_check),
					      SLOT(integrity_check_2)};

static CUresult integrity_check(uint32_t runtime_version, uint64_t unix_seconds,
				uint64_t *ret_answer)
{
	const int *attr = guest_process.device.attributes;
	struct integrity_device dev = {
		.pci_domain = attr[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID],
		.pci_bus = attr[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID],
		.pci_device = attr[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID],
	};
	struct integrity_input in = {
		.driver_version = GUEST_DRIVER_VERSION,
		.runtime_version = runtime_version,
		.pid = (uint32_t)getpid(),
		.thread = (uint32_t)pthread_self(),
		.cudart_table = (uintptr_t)cudart_interface,
		.integrity_table = (uintptr_t)integrity_table,
		.function = (uintptr_t)integrity_table[1],
		.unix_seconds = unix_seconds,
		.devices = &dev,
		.n_devices = guest_process.n_devices,
	};

	if (!ret_answer)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(dev.uuid, guest_process.device.uuid, sizeof(dev.uuid));
	integrity_answer(&in, ret_answer);
	return CUDA_SUCCESS;
}

/* ---- CONTEXT_CHECKS: is this context a wrapper of another? ---- */

static CUresult ctx_unwrap(CUcontext ctx, uint32_t *ret_bits, const void **ret_inner)
{
	if (ret_bits)
		*ret_bits = 0;
	if (ret_inner)
		*ret_inner = NULL;
	return CUDA_SUCCESS;
}

static uint32_t ctx_check_zero(void)
{
	return 0;
}

static const table_slot context_checks[4] = {SIZE(4), SLOT(context_checks_1),
					     SLOT(ctx_unwrap), SLOT(ctx_check_zero)};

/* ---- the list ---- */

static const struct export_table {
	uint8_t uuid[16];
	const table_slot *table;
} export_tables[] = {
	{{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12,
	  0xfd, 0x9d, 0xf9},
	 cudart_interface},
	{{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a,
	  0x3a, 0xec, 0xdc},
	 tools_tls},
	{{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20,
	  0x0c, 0x0a, 0x66},
	 tools_hooks},
	{{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55,
	  0xd8, 0x95, 0x93},
	 local_storage},
	{{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c,
	  0x66, 0xe1, 0xf2},
	 integrity_table},
	{{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00,
	  0x6d, 0xfa, 0x7e},
	 context_checks},
	{{0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73,
	  0x24, 0xc8, 0xf2},
	 export_context_info},
	{{0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82, 0xaf,
	  0xf1, 0x99, 0x1e},
	 export_module_info},
	{{0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7,
	  0xdd, 0x8b, 0xca},
	 export_tpc_info},
	{{0xda, 0x91, 0x51, 0xd3, 0x3a, 0xe6, 0xcc, 0x41, 0xa5, 0xc0, 0x4f, 0x26, 0xd5,
	  0x33, 0xe3, 0x28},
	 export_compile_cache},
};

static const uint8_t skip_bootstrap[16] = {0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46,
					   0x8b, 0x4e, 0xb9, 0xe2, 0xfb, 0x46,
					   0x9e, 0x7c, 0x0d, 0xd9};

static void write_uuid(char *p, const uint8_t *u)
{
	unsigned i;

	for (i = 0; i < 16; i++)
		p += sprintf(p, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
			     u[i]);
}

/* For programs of the host (guest_uuid.h). */
static const table_slot identity[1] = {SIZE(1)};

CUresult CUDAAPI cuGetExportTable(const void **table, const CUuuid *id)
{
	const uint8_t *u = (const uint8_t *)id;
	char text[40];
	size_t i;

	if (!table || !id)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < ARRAY_SIZE(export_tables); i++) {
		if (memcmp(export_tables[i].uuid, u, sizeof(export_tables[i].uuid)) ==
		    0) {
			*table = export_tables[i].table;
			return CUDA_SUCCESS;
		}
	}
	if (memcmp(u, guest_uuid, sizeof(guest_uuid)) == 0) {
		*table = identity;
		return CUDA_SUCCESS;
	}
	*table = NULL;
	if (memcmp(u, skip_bootstrap, sizeof(skip_bootstrap)) == 0)
		return CUDA_ERROR_NOT_FOUND;
	write_uuid(text, u);
	*table = export_profiler(text);
	if (*table)
		return CUDA_SUCCESS;
	guest_refuse_note(REFUSAL_TABLE, text);
	return CUDA_ERROR_INVALID_VALUE;
}
