/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: nvmlInternalGetExportTable: what nvidia-smi asks for beyond nvml.h
 *
 * nvidia-smi takes a private table by UUID first of all, and takes a library without it
 * for one of another version. What the entries do was learnt by watching nvidia-smi 580
 * call them on an H200: arguments, what is written where, what is printed of it. The
 * table has the driver's size; entries that were never seen called say so to the operator
 * and return NOT_SUPPORTED, which nvidia-smi prints as N/A.
 */
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "nvml_calls.h"
#include "nvml_session.h"

#define TABLE_SLOTS   270  /* as driver 580 has */
#define PROCESSES_MAX 256  /* weftd lists no more */
#define SLICES_MAX    100u /* one for a per cent */

typedef void (*table_slot)(void);

/* A line for the driver's own log. */
static int slot_trace(void)
{
	return 0;
}

/* A device's address by its index: "0000:07:00.0". */
static enum nvml_return slot_bus_id(unsigned index, char *text)
{
	struct nvml_pci_info pci;
	struct nvml_device *dev;
	enum nvml_return r = nvmlDeviceGetHandleByIndex_v2(index, &dev);

	if (r == NVML_SUCCESS)
		r = nvmlDeviceGetPciInfo_v3(dev, &pci);
	if (r == NVML_SUCCESS)
		memcpy(text, pci.bus_id_legacy, strlen(pci.bus_id_legacy) + 1);
	return r;
}

/* May the device be monitored? */
static enum nvml_return slot_monitored(const struct nvml_device *dev, unsigned *yes)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_session_device(dev, &info);

	if (r == NVML_SUCCESS)
		*yes = 1;
	return r;
}

static enum nvml_return slot_not_supported(void)
{
	return NVML_ERROR_NOT_SUPPORTED;
}

static void put_sample(struct nvml_process_samples *s,
		       const struct nvml_process_utilization *u, unsigned sm,
		       unsigned memory)
{
	unsigned k;

	memset(s, 0, sizeof(*s));
	s->timestamp_us = u->timestamp_us;
	for (k = 0; k < NVML_SAMPLE_KINDS; k++)
		s->of[k].pid = k < 2 ? u->pid : NVML_NO_PROCESS;
	s->of[0].percent = sm;
	s->of[1].percent = memory;
}

/*
 * Utilisation by process since a moment, for pmon. As the driver gives it, a sample is a
 * slice of time in which one process ran, and pmon divides by the number of all samples:
 * so a process has as many of them as its share, and the idle ones are somebody's too.
 */
static enum nvml_return slot_samples(const struct nvml_device *dev,
				     unsigned long long since_us, unsigned *type,
				     unsigned *count,
				     struct nvml_process_samples *samples)
{
	struct nvml_process_utilization u[PROCESSES_MAX];
	unsigned i, k = 0, n = PROCESSES_MAX, all = MIN(*count, SLICES_MAX);
	enum nvml_return r = nvmlDeviceGetProcessUtilization(dev, u, &n, since_us);

	if (r)
		return r;
	for (i = 0; i < n && k < all; i++) {
		if (u[i].sm * all / 100 == 0)
			put_sample(&samples[k++], &u[i], 0, 0);
	}
	for (i = 0; i < n; i++) {
		unsigned slices = u[i].sm * all / 100, memory, end = MIN(k + slices, all);

		memory = slices ? MIN(u[i].memory * all / slices, 100u) : 0;
		while (k < end)
			put_sample(&samples[k++], &u[i], 100, memory);
	}
	while (k < all)
		put_sample(&samples[k++], &u[0], 0, 0);
	*type = NVML_VALUE_TYPE_UNSIGNED_INT;
	*count = all;
	return NVML_SUCCESS;
}

/* Every other entry, by number. */
static enum nvml_return unknown(unsigned n)
{
	char text[32];

	snprintf(text, sizeof(text), "nvml_table[%u]", n);
	nvml_refuse(REFUSAL_SLOT, text);
	return NVML_ERROR_NOT_SUPPORTED;
}

#define U(n)                                                                             \
	static enum nvml_return unknown_##n(void)                                        \
	{                                                                                \
		return unknown(n);                                                       \
	}
#define TEN(F, t)                                                                        \
	F(t##0) F(t##1) F(t##2) F(t##3) F(t##4) F(t##5) F(t##6) F(t##7) F(t##8) F(t##9)
#define NINE(F) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9)
#define ALL(F)                                                                           \
	NINE(F)                                                                          \
	TEN(F, 1)                                                                        \
	TEN(F, 2)                                                                        \
	TEN(F, 3)                                                                        \
	TEN(F, 4)                                                                        \
	TEN(F, 5)                                                                        \
	TEN(F, 6) TEN(F, 7) TEN(F, 8) TEN(F, 9) TEN(F, 10) TEN(F, 11) TEN(F, 12)         \
		TEN(F, 13) TEN(F, 14) TEN(F, 15) TEN(F, 16) TEN(F, 17) TEN(F, 18)        \
			TEN(F, 19) TEN(F, 20) TEN(F, 21) TEN(F, 22) TEN(F, 23)           \
				TEN(F, 24) TEN(F, 25) TEN(F, 26)

ALL(U)

#define SLOT(f)    ((table_slot)(f))
#define SLOT_OF(n) [n] = SLOT(unknown_##n),

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
static const table_slot smi_table[TABLE_SLOTS] = {
	[0] = SLOT((uintptr_t)(TABLE_SLOTS * sizeof(table_slot))),
	ALL(SLOT_OF)[26] = SLOT(slot_trace),
	[72] = SLOT(slot_monitored),
	[81] = SLOT(slot_bus_id),
	[145] = SLOT(slot_samples),
	[213] = SLOT(nvml_compute_processes),
	[214] = SLOT(nvml_graphics_processes),
	[215] = SLOT(nvml_no_processes),  /* of MPS */
	[230] = SLOT(slot_not_supported), /* link generation of the host's port */
	[231] = SLOT(slot_not_supported), /* GPU part number */
	[232] = SLOT(slot_not_supported), /* memory clock that is to come */
	[237] = SLOT(slot_not_supported), /* FRU part number */
	[249] = SLOT(slot_not_supported), /* sparse operation mode */
};
#pragma GCC diagnostic pop

static const uint8_t smi_uuid[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
				     0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};

enum nvml_return nvmlInternalGetExportTable(const void **table, const uint8_t *uuid)
{
	char text[REFUSAL_TEXT], *p = text;
	unsigned i;

	if (!table || !uuid)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!memcmp(uuid, smi_uuid, sizeof(smi_uuid))) {
		*table = smi_table;
		return NVML_SUCCESS;
	}
	p += sprintf(p, "NVML ");
	for (i = 0; i < sizeof(smi_uuid); i++)
		p += sprintf(p, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
			     uuid[i]);
	nvml_refuse(REFUSAL_TABLE, text);
	return NVML_ERROR_INVALID_ARGUMENT; /* as the driver */
}
