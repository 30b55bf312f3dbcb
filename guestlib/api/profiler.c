/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: the private tables of CUPTI, NVIDIA's library for profilers
 *
 * Weft traces nothing of the device for a guest, and says so where CUPTI asks. What CUPTI
 * tells its program is then a documented error, and the program goes on:
 *
 * - CUPTI up to 12.9 first asks 7cb63f9b whether the process may profile. It may not;
 *   CUPTI says CUPTI_ERROR_INSUFFICIENT_PRIVILEGES.
 * - CUPTI 13 first looks for 37 tables, three of which other libraries use too and are in
 *   export_table.c. 19 must be there, or it says CUPTI_ERROR_UNKNOWN. Then it subscribes
 *   to the driver's callbacks (2c8e0ad8), which is denied; CUPTI says
 *   CUPTI_ERROR_NOT_INITIALIZED: it cannot connect to the driver. To let it subscribe
 *   and then not profile would not do: CUPTI 13.0 forgets that error, says success to
 *   the next calls, and crashes where an activity is enabled.
 *
 * Nothing else is called after that, so the other tables have no slots. They are for
 * CUPTI alone: NVBit and OptiX ask for some of them too, and stay refused.
 *
 * Seen with CUPTI 11.8, 12.1, 12.8, 12.9, 13.0, 13.1 and 13.2. CUPTI 13.5 also insists on
 * f8cff951, which must be missing for the runtime's sake, and still says
 * CUPTI_ERROR_UNKNOWN.
 */
#include <stdatomic.h>
#include <string.h>

#include "api/export_table.h"

/* In that table's own codes; it becomes CUPTI_ERROR_INSUFFICIENT_PRIVILEGES. */
#define MAY_NOT_PROFILE 19

/* The slots of a5987389, the longest in a real driver. */
#define MAX_SLOTS 807

/* An answer, not a gap: nothing is counted. */
static CUresult no_subscribers(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

static const table_slot driver_callbacks[12] = {
	[0] = SIZE(12),
	[1 ... 11] = SLOT(no_subscribers), /* 11 subscribes; 3 does in older drivers */
};

UNKNOWN_SLOT(profiling, other)

static int may_profile(void)
{
	return MAY_NOT_PROFILE;
}

static const table_slot profiling[33] = {
	[0] = SIZE(33),
	[1 ... 31] = SLOT(profiling_other),
	[32] = SLOT(may_profile),
};

UNKNOWN_SLOT(profiler, any)

/* No slots; those behind the size are for a caller that does not look at it. */
static const table_slot no_slots[MAX_SLOTS] = {
	[0] = SIZE(1),
	[1 ... MAX_SLOTS - 1] = SLOT(profiler_any),
};

/* 41ae717d: the real table behind it, of that version. CUPTI takes NULL for a fault. */
static const table_slot *versioned(unsigned version)
{
	return no_slots;
}

static const table_slot versions[2] = {SIZE(2), SLOT(versioned)};

static const struct {
	const char *uuid;
	const table_slot *table;
} with_slots[] = {
	{"2c8e0ad8-0710-ab4e-90dd-54719fe5f74b", driver_callbacks},
	{"41ae717d-a9eb-a64f-999b-e3c27f3c140f", versions},
	{"7cb63f9b-9ca4-8e42-a484-beb66e6aed7f", profiling},
};

static const char *const without[] = {
	/* CUPTI 13 insists on these. */
	"fc58ac1a-057c-444f-a977-72ee9aefdb89",
	"b10541e1-f7c7-c74a-9f64-f223be99f1e2",
	"d7bd8af8-e7ac-ca4a-bdbc-fb1f1b3fcf33",
	"b9fd5327-0628-c24f-87a9-988cddf73089",
	"35770f1b-092e-0348-a48e-056fc423968d",
	"bfdb432d-bf3c-5a4a-945e-b34029e81e75",
	"a6b1ff99-ecc4-c94f-92f9-1928663d5585",
	"127d4831-ee33-5744-9742-b8447b7a2364",
	"c83963f6-17f7-e241-a574-9143314dff9f",
	"cc529e94-5c4e-9d46-837c-9625868334e4",
	"12458358-a7c2-1e59-2177-ef3556188709",
	"6fbd4b79-aa8c-8e46-baf3-c103b6d18e3c",
	"36b88960-6158-f543-bbd9-ac633878b6b1",
	/* Tables that CUPTI can do without. */
	"c98d1afa-f227-5b42-b12d-cd81b5f21ec1",
	"c2db37e3-c475-4247-b3a8-a079f37202ec",
	"ff9ab8ee-28d4-0e4c-b3b7-fd724a6277a8",
	"1406180d-72d6-cb47-ab6e-b963e51bf4c6",
	"06ac4921-c9a9-e611-80f5-76304dec7eb7",
	"bd91fa4d-185f-964a-8b17-f3805601413f",
	"7a7125c2-f716-ea11-8d71-362b9e155667",
	"32683f42-be96-5245-9950-838b1c3de155",
	"dccdd908-8966-0045-bb1f-77598aca1133",
	"a259cffb-1846-e848-8957-bfc72ceb58b8",
	"5b618f5a-1202-6847-81e4-a7765ac9f359",
	"f6d3f4d9-2de3-8040-9f0c-058cf1b2906b",
	"0e7af9b3-3460-7944-70ed-f020433b7ef9",
	"fe605bbf-8542-924c-a912-68bee10b29e7",
	"e9ff28a9-0c61-b449-9c09-e567201b05f0",
	"1ad5eede-0290-c64e-ba81-00f425b38aa5",
	"e01b33ce-c3b7-ce4d-be3c-aba233b1a9cc",
	"a5987389-dd8f-6b4b-bddb-c24bf650aa18",
};

const table_slot *export_profiler(const char *uuid)
{
	/* Relaxed: CUPTI asks for one of the first kind first, in the same thread. */
	static atomic_bool is_cupti;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(with_slots); i++) {
		if (strcmp(with_slots[i].uuid, uuid) == 0) {
			atomic_store_explicit(&is_cupti, true, memory_order_relaxed);
			return with_slots[i].table;
		}
	}
	if (!atomic_load_explicit(&is_cupti, memory_order_relaxed))
		return NULL;
	for (i = 0; i < ARRAY_SIZE(without); i++) {
		if (strcmp(without[i], uuid) == 0)
			return no_slots;
	}
	return NULL;
}
