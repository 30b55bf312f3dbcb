/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device memory of a session: which addresses of the band are taken, by what, and how
 * many bytes of physical memory stand behind them.
 *
 * The band is divided into pages of a backing (2 MiB). A page belongs to at most one
 *region:
 *
 *	slab	one backing, shared by allocations of up to 1 MiB
 *	large	one allocation with memory of its own, one handle for all of it
 *	range	addresses the guest reserved itself, with what it mapped into them
 *	import	an allocation of another session, opened here
 *	managed	what the program's CPU sees as well (managed.h)
 *
 * Variables of modules lie elsewhere, in memory of the device's own.
 *
 * All bytes of physical memory are charged at the broker before they are taken.
 *
 * Thread-safe. Functions return what CUDA documents for the case. Only charging waits
 *(for weftd); nothing waits for the device: who frees memory has synchronised before.
 */
#ifndef WEFT_MEM_SPACE_H
#define WEFT_MEM_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "device/device.h"

struct arena;
struct mem_env;
struct space;
struct backing; /* physical memory, charged; counted */

/* Allocations above this have backings of their own. */
#define SPACE_SMALL_MAX (1u << 20)
#define SPACE_SLAB      (2ull << 20)
/* How long physical memory is kept in case it is wanted again. */
#define SPACE_IDLE_NS 20000000ull

/* env stays as long as the space does, and its device is open. Returns 0 or -ENOMEM. */
int space_new(const struct mem_env *env, struct space **ret_space);

/* Frees all memory. Accepts NULL. */
void space_free(struct space *sp);

/*
 * The device is quiet and nothing will use memory any more: the device's own goes back,
 * also if it is still allocated or mapped. What is in host memory stays, and so does what
 * other sessions map, or what the device does not unmap. Only space_free() may follow. 30
 * us for each piece (H200).
 */
void space_give_back(struct space *sp);

/* ---- allocations ---- */

/* Memory for a context (its number is owner), readable and writable. */
CUresult space_alloc(struct space *sp, uint64_t bytes, unsigned owner,
		     CUdeviceptr *ret_addr);

/* Memory for a pool, size in whole backings. */
CUresult space_arena_new(struct space *sp, uint64_t size, struct arena *arena,
			 CUdeviceptr *ret_addr);
void space_arena_free(struct space *sp, CUdeviceptr addr);

/* addr must be what space_alloc() returned: else CUDA_ERROR_INVALID_VALUE. */
CUresult space_release(struct space *sp, CUdeviceptr addr);

/* True if space_release(addr) would succeed. */
bool space_is_alloc(struct space *sp, CUdeviceptr addr);

/* Frees everything a context allocated. */
void space_release_owner(struct space *sp, unsigned owner);

enum space_kind {
	SPACE_ALLOCATION,
	SPACE_RESERVED, /* addresses of the guest's own, or what it mapped there */
	SPACE_GLOBAL,
	SPACE_ARENA,  /* of a pool: pools_find() knows more */
	SPACE_IMPORT, /* an allocation of another session */
	SPACE_MANAGED, /* memory that the program's CPU sees as well; managed.h */
};

struct space_range {
	enum space_kind kind;
	CUdeviceptr base;
	uint64_t size;
	unsigned owner; /* of the context; 0: none (reserved ranges) */
	uint64_t id;    /* never reused: CU_POINTER_ATTRIBUTE_BUFFER_ID */
	bool mapped;    /* has memory behind it */
	bool in_host_memory;
	struct arena *arena;
};

/* The allocation, mapping or variable that covers addr, or CUDA_ERROR_INVALID_VALUE. */
CUresult space_find(struct space *sp, CUdeviceptr addr, struct space_range *ret_range);

/* Lets space_find() know of a module's variable; a known one stays as it is. */
CUresult space_global_add(struct space *sp, CUdeviceptr addr, uint64_t size,
			  unsigned owner, const void *module);
/* Forgets all variables of a module. */
void space_global_drop(struct space *sp, const void *module);

/* ---- memory that other sessions of the tenant have too ---- */

/* Pieces of backings that a session exports, and of those that it opens: each may take a
 * descriptor. */
#define SPACE_SHARES_MAX 4096u

/* Where an allocation is found; a guest may have made it up. */
struct space_share {
	uint8_t name[16];
	uint64_t offset, bytes; /* in what the name stands for */
};

/* addr lies in something that space_alloc() returned: else CUDA_ERROR_INVALID_VALUE.
 * These wait while what is evicted becomes resident (move.h): as for space_charge(). */
CUresult space_export(struct space *sp, CUdeviceptr addr, struct space_share *ret_share);
/* As space_export(), of a part of an arena. */
CUresult space_export_arena(struct space *sp, CUdeviceptr addr, uint64_t bytes,
			    struct space_share *ret_share);
/* Opened again for the same context it has the same address. CUDA_ERROR_INVALID_CONTEXT:
 * it is the session's own. */
CUresult space_import(struct space *sp, const struct space_share *h, unsigned owner,
		      CUdeviceptr *ret_addr);
/* Ends one space_import(); the last one unmaps it. */
CUresult space_import_close(struct space *sp, CUdeviceptr addr);
/* True if space_import_close(addr) would succeed. */
bool space_is_import(struct space *sp, CUdeviceptr addr);

/* ---- the guest's own mappings (cuMemAddressReserve and so on) ---- */

CUresult space_reserve(struct space *sp, uint64_t size, uint64_t align, uint64_t addr,
		       CUdeviceptr *ret_addr);
CUresult space_unreserve(struct space *sp, CUdeviceptr addr, uint64_t size);

/* Physical memory; size is a multiple of the backing size. The caller holds a reference.
 * */
CUresult backing_new(struct space *sp, uint64_t size, enum dev_memory memory,
		     struct backing **ret_backing);
/* The device's, but takes nothing that others have within their shares. */
CUresult backing_new_spare(struct space *sp, uint64_t size, struct backing **ret_backing);
/* Mappings hold a reference of their own. Accepts NULL. */
void backing_put(struct space *sp, struct backing *c);
uint64_t backing_size(const struct backing *c);
/* True if it was asked for and the device made all of it so. What moves out is plain
 * while it is evicted. */
bool backing_compressible(const struct backing *c);
/* Notes the guest's handle for c, so that it can ask by address. Returns c's number. */
uint64_t backing_set_handle(struct space *sp, struct backing *c, uint64_t handle);
/* The guest gives that handle up. */
void backing_drop_handle(struct space *sp, struct backing *c, uint64_t handle);
/* The backing with that number, if it is still there, for another handle; a reference. */
struct backing *backing_get(struct space *sp, uint64_t id, uint64_t handle);

/* A name under which other sessions of the tenant may open it. */
CUresult backing_export(struct space *sp, struct backing *c, uint8_t ret_name[16]);
/* Opens a backing that another session has exported; the caller gets a reference. */
CUresult backing_open(struct space *sp, const uint8_t name[16],
		      struct backing **ret_backing);

CUresult space_map(struct space *sp, CUdeviceptr addr, uint64_t size, struct backing *c);
CUresult space_unmap(struct space *sp, CUdeviceptr addr, uint64_t size);
CUresult space_set_access(struct space *sp, CUdeviceptr addr, uint64_t size,
			  CUmemAccess_flags access);
CUresult space_get_access(struct space *sp, CUdeviceptr addr,
			  CUmemAccess_flags *ret_access);
/* The backing that the guest mapped at addr; handle 0 if it gave that up. */
CUresult space_handle_at(struct space *sp, CUdeviceptr addr, uint64_t *ret_handle,
			 uint64_t *ret_id, enum dev_memory *ret_memory);

/* ---- accounts ---- */

/*
 * Charges memory, before it is taken. Waits for weftd, perhaps seconds: while memory
 * is evicted, of this session too. So no lock is held that a lane inside the gate could
 * want, least of all the space's.
 */
CUresult space_charge(struct space *sp, uint64_t bytes);
void space_uncharge(struct space *sp, uint64_t bytes);

/* Gives physical memory back that is kept for a moment. */
void space_flush(struct space *sp);

/* Bytes charged now and at most so far. */
void space_usage(struct space *sp, uint64_t *ret_used, uint64_t *ret_peak);

#endif
