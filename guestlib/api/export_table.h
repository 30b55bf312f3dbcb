/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of cuGetExportTable, for the files that fill them. */
#ifndef WEFT_GUEST_EXPORT_TABLE_H
#define WEFT_GUEST_EXPORT_TABLE_H

#include "core/guest.h"
#include "object/refuse.h"

typedef void (*table_slot)(void);

#define SLOT(f) ((table_slot)(f))
#define SIZE(n) ((table_slot)(uintptr_t)((n) * sizeof(table_slot)))

/*
 * A slot whose purpose is not known and that was never seen called: a function that
 * counts which one it is, table_n().
 */
#define UNKNOWN_SLOT(table, n)                                                           \
	static CUresult table##_##n(void)                                                \
	{                                                                                \
		return guest_refuse(REFUSAL_SLOT, #table "[" #n "]");                    \
	}

/* export_library.c */
extern const table_slot export_context_info[], export_module_info[], export_tpc_info[],
	export_compile_cache[];

/*
 * Finds a profiler's table by its name ("2c8e0ad8-0710-..."). NULL if there is none, or
 * none yet: most exist only for a caller that has asked for another before. Any thread,
 * in any state. Defined in profiler.c.
 */
const table_slot *export_profiler(const char *uuid);

#endif
