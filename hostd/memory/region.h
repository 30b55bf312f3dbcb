/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to memory/: the tables behind space.h.
 *
 * Functions ending in _locked expect sp->lock. While it is held only the device and the
 * broker are called, which call nothing back; but nothing is charged: that waits until
 * other memory has gone, perhaps of this very session.
 */
#ifndef WEFT_MEM_REGION_H
#define WEFT_MEM_REGION_H

#include <pthread.h>

#include "base/list.h"
#include "base/tree.h"
#include "device/device.h"
#include "memory/backing.h"
#include "memory/cold.h"
#include "memory/hostpool.h"
#include "memory/slab.h"
#include "memory/space.h"
#include "ipc/accounts.h"
#include "ipc/wmem.h"
#include "memory/env.h"

#define SPACE_PAGE SLAB_BYTES
static_assert(SPACE_PAGE == SPACE_SLAB, "a slab is a backing");
#define SPACE_L2 2048u
#define SPACE_L1 (DEVICE_BAND_SIZE / SPACE_PAGE / SPACE_L2)
/* Slabs by size of what they hold, so that large holes are not cut up by small pieces. */
#define SPACE_CLASSES 3
/* Bytes of its worker's memory that an extent, a range or a mapping takes, about. */
#define ENTRY_BYTES 512u

enum region_kind {
	REGION_SLAB,
	REGION_LARGE,
	REGION_ARENA, /* of a pool, which divides it */
	REGION_RANGE,
	REGION_IMPORT, /* of another session; ipc.c */
	REGION_MANAGED, /* in parts, each of which is mapped while it is the device's */
	REGION_HIDDEN, /* what the guest has not mapped becomes resident there; ipc.c */
};

/* One backing at one address. */
struct mapping {
	CUdeviceptr addr;
	struct backing *backing;
	struct list in_backing;
	CUmemAccess_flags access;
	uint64_t id;
	/* The latest that has named it, or what lies before it in its range, when cold.c last
	 * looked. */
	uint32_t named;
};

struct region {
	enum region_kind kind;
	CUdeviceptr base;
	uint64_t size;   /* whole pages */
	uint64_t bytes;  /* what was asked for */
	uint64_t offset; /* import: where in it the allocation begins */
	unsigned opened; /* import: how often */
	unsigned owner;  /* context; slabs too are of one context */
	uint64_t id;
	struct mapping *map; /* slab, large */
	struct slab *slab;
	struct arena *arena;
	unsigned slab_class;
	struct tree_node room; /* slab, unless it is the spare one: of sp->rooms[class] */
	struct list link;      /* slab: of sp->slabs[class]; else of sp->regions */
};

struct page {
	struct region *region;
	struct mapping *map; /* of a range or managed memory: what is mapped here */
};

struct global {
	CUdeviceptr addr;
	uint64_t size, id;
	unsigned owner;
	const void *module;
};

struct space {
	const struct mem_env *env;
	pthread_mutex_t lock;
	struct page *l1[SPACE_L1]; /* each SPACE_L2 pages, made when first needed */
	struct list slabs[SPACE_CLASSES];
	struct tree rooms[SPACE_CLASSES]; /* slabs by owner and slab_room() */
	struct list regions;
	struct list backings;
	struct list all;      /* backings, in the order in which they were made */
	struct region *spare; /* one empty slab, so that a lone buffer that comes and
			       * goes costs nothing */
	struct global *globals;
	size_t n_globals, room_globals;
	uint64_t next_id;
	uint64_t
		next_small; /* of allocations in slabs; they do not make backings older */
	uint64_t used, peak; /* bytes charged */
	_Atomic uint64_t entries; /* regions and mappings; written under the lock */
	struct wmem_many many;
	unsigned n_exported, n_imported;

	/* idle.c: physical memory that is charged to nobody and may be wanted again */
	struct list idle; /* the one that came last first */
	uint64_t idle_bytes;
	unsigned n_idle;
	bool reaping, ending;
	pthread_t reaper;
	pthread_cond_t reaper_cond;

	/* move.c */
	struct hostpool *hostpool;
	const struct placement *placement;
	uint64_t piece_bytes;
	uint64_t extent_bytes;            /* more is never one piece */
	struct space_residency residency; /* of all backings that are charged */
	uint64_t runs;                    /* of moving, begun so far */
	bool turns;                       /* space_set_turns() */
	bool compares;                    /* what leaves is, by these digests, */
	bool only_copies;                 /* unless they cannot be made now */
	struct digest_key digests;
	struct cold cold;
	pthread_cond_t moved_cond;        /* nothing of some backing moves any more */
	int (*make_resident)(void *arg, struct backing *c, uint64_t bytes);
	void *make_resident_arg;
	void (*left)(void *arg, uint64_t bytes);
	void *left_arg;
};

/* The hostpool_wants_fn of a space, which arg is; in move.c. */
void space_host_wants(void *arg, uint64_t bytes[HOSTPOOL_CLASSES]);

/* One more region with a mapping is to come: charges worker memory for it. Without the
 * lock. CUDA_SUCCESS or OUT_OF_MEMORY. */
CUresult space_entry(struct space *sp);

/* True if what is mapped there is a matter of each of its pages. */
static inline bool region_by_page(const struct region *r)
{
	return r->kind == REGION_RANGE || r->kind == REGION_MANAGED;
}
/* Notes, for whole pages of such a region, what is mapped there; NULL: nothing. */
void pages_set_map_locked(struct space *sp, CUdeviceptr addr, uint64_t size,
			  struct mapping *m);

/* The page that holds addr; NULL outside the band or where nothing ever was. */
struct page *page_at_locked(const struct space *sp, CUdeviceptr addr);

/* Enters or (r NULL) clears a region's pages. Returns 0 or -ENOMEM. */
int pages_set_locked(struct space *sp, CUdeviceptr base, uint64_t size, struct region *r);

/* The latest that has named what lies in the same range before a mapping; 0: nobody, or nothing
 * does. */
uint32_t named_before_locked(const struct space *sp, const struct mapping *m);

/* Returns the mapping at addr, in a range or behind an allocation; NULL: none. */
struct mapping *mapping_at_locked(struct space *sp, CUdeviceptr addr);

CUresult space_find_locked(struct space *sp, CUdeviceptr addr,
			   struct space_range *ret_range);

/* Keeps the memory of a backing that is not charged (any more) for a moment. */
void idle_put_locked(struct space *sp, struct backing *c);
/* One of exactly that size; NULL: none. */
struct backing *idle_take_locked(struct space *sp, uint64_t size);
/* Before the device is asked for more: gives back so much that little lies idle. */
void idle_trim_locked(struct space *sp, uint64_t size);
/* Gives everything back. */
void idle_flush_locked(struct space *sp);
/* Ends the thread that does it by and by. */
void idle_end(struct space *sp);

/* Maps c at addr without access; takes a reference. */
CUresult mapping_new_locked(struct space *sp, CUdeviceptr addr, struct backing *c,
			    struct mapping **ret_map);
/* Unmaps, and lets go of the backing. Accepts NULL. */
void mapping_free_locked(struct space *sp, struct mapping *m);

/* A region with c behind it, readable and writable. */
CUresult region_backed_locked(struct space *sp, enum region_kind kind, struct backing *c,
			      struct region **ret_region);
/* Reserves addresses and enters the region. */
CUresult region_new_locked(struct space *sp, enum region_kind kind, uint64_t size,
			   uint64_t align, uint64_t addr, struct region **ret_region);
/* Unmaps, gives the addresses back, frees. */
void region_free_locked(struct space *sp, struct region *r);

/* Gives back what is kept in case it is wanted again: the spare slab and what lies idle.
 * space_flush() of space.h is in region.c, too. */
void space_flush_locked(struct space *sp);

#endif
