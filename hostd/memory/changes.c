/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "memory/changes.h"
#include "memory/hostpool.h"
#include "memory/region.h"

/* A backing that has changed so often in a row is asked in one run of so many. */
#define CHANGES_MAX 2u
#define ASK_AGAIN   8u

static const struct mapping *first_mapping(const struct backing *c)
{
	return list_entry(c->mappings.next, const struct mapping, in_backing);
}

static bool has_blocks(const struct transfer *t)
{
	for (unsigned i = 0; i < t->n_host; i++) {
		if (t->host[i]->size % DIGEST_BLOCK || t->host[i]->size > DIGEST_MAX)
			return false;
	}
	return true;
}

bool changes_begin(const struct mover *mv, struct transfer *t)
{
	bool seldom = t->c->changes >= CHANGES_MAX && mv->run % ASK_AGAIN;

	if (!mv->sp->compares || mv->sp->only_copies || seldom || !has_blocks(t) ||
	    first_mapping(t->c)->access == CU_MEM_ACCESS_FLAGS_PROT_NONE)
		return false;
	t->digests = calloc(t->n_host, sizeof(*t->digests));
	t->compares = t->digests;
	return t->compares;
}

void changes_ranges(const struct transfer *t, struct digest_range *ret)
{
	CUdeviceptr at = first_mapping(t->c)->addr + t->offset;

	for (unsigned i = 0; i < t->n_host; i++) {
		ret[i] = (struct digest_range){at, t->host[i]->size};
		at += t->host[i]->size;
	}
}

bool changes_none(const struct transfer *t, unsigned i)
{
	return t->digests && t->host[i]->known &&
	       !memcmp(&t->digests[i], &t->host[i]->digest, sizeof(t->digests[i]));
}

uint64_t changes_known(struct transfer *t, const struct digest *d)
{
	uint64_t same = 0;
	bool known = false;

	t->compares = false;
	if (!d) {
		free(t->digests);
		t->digests = NULL;
		return 0;
	}
	memcpy(t->digests, d, t->n_host * sizeof(*d));
	for (unsigned i = 0; i < t->n_host; i++) {
		known |= t->host[i]->known;
		same += changes_none(t, i) ? t->host[i]->size : 0;
	}
	if (known)
		t->c->changes = same ? 0 : t->c->changes + 1;
	return same;
}

void changes_note(struct transfer *t)
{
	uint64_t offset = t->offset;

	for (unsigned i = 0; i < t->n_host; i++) {
		struct host_piece *h = t->host[i];

		h->known = t->digests && !h->shared;
		h->of = t->c->id;
		h->offset = offset;
		if (h->known)
			h->digest = t->digests[i];
		offset += h->size;
	}
}

void changes_forget(struct transfer *t)
{
	for (unsigned i = 0; i < t->n_host; i++)
		t->host[i]->known = false;
}
