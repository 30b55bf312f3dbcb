/* SPDX-License-Identifier: Apache-2.0 */
/* barrier.cluster: threads of all blocks of a cluster. A block alone is a cluster too. */
#include "simt/cta.h"
#include "simt/handlers/row.h"

/* Lets everybody go if all threads of the cluster have come. */
static void check(struct simt_cluster *k)
{
	if (!k->arrived || k->arrived < k->live)
		return;
	k->arrived = 0;
	k->phase++;
	for (unsigned n = 0; n < k->num; n++) {
		struct simt_cta *c = k->cta[n];

		for (uint32_t i = 0; i < c->num_warps; i++) {
			struct simt_warp *w = &c->warps[i];

			FOR_LANES(w->used, s)
			{
				if (w->split[s].state == SIMT_SPLIT_CLUSTER)
					w->split[s].state = SIMT_SPLIT_READY;
			}
			if (w->used & (w->used - 1))
				simt_warp_merge(w);
		}
	}
}

void simt_cluster_exit(struct simt_warp *w, uint32_t m)
{
	struct simt_cluster *k = w->cta->cluster;

	k->live -= (uint32_t)__builtin_popcount(m);
	/* whoever arrived and left without waiting no longer counts on either side */
	FOR_LANES(m, i)
	{
		if (w->cluster_phase[i] == k->phase + 1)
			k->arrived--;
	}
	check(k);
}

/* A lane that has arrived notes the phase that must pass, plus one so that 0 is none. */
static SIMT_HANDLER(cluster_arrive)
{
	struct simt_cluster *k = w->cta->cluster;

	FOR_LANES(m, i)
	w->cluster_phase[i] = k->phase + 1;
	k->arrived += (uint32_t)__builtin_popcount(m);
	check(k);
	return op + 1;
}

static SIMT_HANDLER(cluster_wait)
{
	struct simt_cluster *k = w->cta->cluster;
	uint32_t wait = 0;

	FOR_LANES(m, i)
	wait |= (uint32_t)(w->cluster_phase[i] == k->phase + 1) << i;
	if (!wait)
		return op + 1;
	w->cur->state = SIMT_SPLIT_CLUSTER;
	w->cur->pc = op + 1;
	w->event = SIMT_EV_SPLIT;
	return NULL;
}

const struct simt_handler simt_h_cluster[] = {
	{"cluster.arrive", cluster_arrive},
	{"cluster.wait", cluster_wait},
	{NULL, NULL},
};
