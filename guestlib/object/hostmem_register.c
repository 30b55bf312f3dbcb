/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: registered host memory
 *
 * Registering memory of the program takes a region, copies the contents over and puts the
 * region's pages in the place of the program's; the device knows them by the region's
 * address, the alias. Unregistering copies them back. That works for private anonymous
 * memory alone. Pages that belong to others in part are replaced as well; who stores to
 * them meanwhile waits. Memory that cannot be replaced stays where it is: copies work,
 * mapping does not.
 */

#include "object/hostmem.h"
#include "core/mapping.h"

/* Registered memory that stays where it is. */
#define REGISTER_ALIEN (CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)

static uintptr_t pages_of(const struct hostmem *h, size_t *ret_size)
{
	uintptr_t start = ALIGN_DOWN(h->base, HOSTMEM_PAGE);

	*ret_size = ALIGN_UP(h->base + h->size, HOSTMEM_PAGE) - start;
	return start;
}

static void share(struct guest_thread *t, struct hostmem *h)
{
	struct hostmem_region g;
	size_t size;
	uintptr_t start = pages_of(h, &size);

	if (h->flags & REGISTER_ALIEN || !hostmem_may_swap(start, size) ||
	    !mapping_plain(start, start + size) ||
	    hostmem_region_again(t, size, &g) != CUDA_SUCCESS)
		return;
	if (hostmem_share_pages(&g, start, size, &h->own) < 0) {
		hostmem_region_keep(t, &g);
		return;
	}
	h->region = g;
	h->dev = g.addr + (h->base - start);
}

static CUresult give_back(struct guest_thread *t, struct hostmem *h)
{
	CUresult sync, r;
	size_t size;
	uintptr_t start = pages_of(h, &size);

	if (!h->region.size)
		return CUDA_SUCCESS;
	sync = hostmem_wait_device(t); /* what it still writes is to be copied, too */
	/* Pages that cannot be given back stay the region's for good. */
	if (hostmem_unshare_pages(&h->region, start, size, h->own) < 0)
		return sync;
	r = hostmem_region_keep(t, &h->region);
	return sync ? sync : r;
}

/* Makes the range that describes the same memory under the device's address. */
static struct hostmem alias_of(const struct hostmem *h)
{
	struct hostmem a = *h;

	a.base = h->dev;
	a.host = h->base;
	a.alias = true;
	return a;
}

CUresult hostmem_register(struct guest_thread *t, struct hostmem *h)
{
	struct hostmem alias;
	/* Holds the place, so that nobody else registers it meanwhile. */
	CUresult r = hostmem_insert(h);

	if (r)
		return r;
	share(t, h);
	if (!h->region.size)
		return CUDA_SUCCESS;
	alias = alias_of(h);
	r = hostmem_insert(&alias);
	if (r == CUDA_SUCCESS && hostmem_replace(h))
		return CUDA_SUCCESS;
	hostmem_take(h->base, true, &alias);
	give_back(t, h);
	return r ? r : CUDA_ERROR_INVALID_VALUE;
}

CUresult hostmem_unregister(struct guest_thread *t, struct hostmem *h)
{
	struct hostmem alias;

	if (h->dev)
		hostmem_take(h->dev, true, &alias);
	return give_back(t, h);
}
