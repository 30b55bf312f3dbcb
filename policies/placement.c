/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placement: decides who is evicted, how much, and who gets it back.
 *
 * Nothing goes to and fro while the tenants stay as they are: being evicted ends, and
 * coming back stops, at the fair share. Giving rounds up to a piece and coming back
 * rounds down, so a tenant that gave is less than a piece below its share and gets
 * nothing for that.
 */
#include <errno.h>

#include "policies/choose.h"
#include "policies/share.h"

/* A session that submitted nothing for so long is idle: others have worked since. */
#define IDLE_NS 1000000000ull
/* And for so long: it will hardly miss its memory before it says so. */
#define EVICTED_NS (5 * IDLE_NS)
/* Places in the line for which memory leaves: the next one, and, once that has all, one more. */
#define NEAR 2u

static uint64_t round_down(uint64_t bytes, uint64_t piece)
{
	return piece ? bytes - bytes % piece : bytes;
}

static uint64_t round_up(uint64_t bytes, uint64_t piece)
{
	uint64_t down = round_down(bytes, piece);

	return down == bytes ? bytes : share_add(down, piece);
}

/* Returns bytes, or, if that is more than `most`, as many pieces as fit into it: a last
 * piece that is smaller than a piece moves only with all the others. */
static uint64_t limit(uint64_t bytes, uint64_t most, uint64_t piece)
{
	return bytes <= most ? bytes : round_down(most, piece);
}

/* How far above its share a tenant is, in bytes per weight; before that, where it counts, its place
 * in the line: who has to wait longest comes first. */
struct distance {
	__int128 bytes;
	uint64_t weight;
	uint32_t turn;
};

static bool further(struct distance a, struct distance b)
{
	if (a.turn != b.turn)
		return a.turn > b.turn;
	return a.bytes * b.weight > b.bytes * a.weight;
}

static struct distance in_line(const struct placement_tenant *t, uint64_t over)
{
	return (struct distance){over, share_weight(t), share_turn(t)};
}

/* The best of those that were offered, and why others were not taken. */
struct search {
	struct placement_step best;
	struct distance at;
	bool found, busy, no_host;
};

static int search_end(const struct search *s, struct placement_step *ret_step)
{
	if (!s->found)
		return s->busy ? -EBUSY : s->no_host ? -ENOMEM : -ENOSPC;
	*ret_step = s->best;
	return 0;
}

/* Tenant i would give so much, at such a distance from its share. */
static void offer(struct search *s, const struct placement_device *d,
		  const struct placement_tenant *t, uint32_t i, uint64_t bytes,
		  struct distance at)
{
	if (!bytes)
		return;
	bytes = limit(bytes, share_min(d->host_room, t->evicted_room), d->piece);
	if (!bytes) {
		s->no_host = true;
		return;
	}
	if (t->busy) {
		s->busy = true;
		return;
	}
	if (s->found && !further(at, s->at))
		return;
	s->found = true;
	s->at = at;
	s->best = (struct placement_step){.tenant = i, .bytes = bytes};
}

/* Part of `bytes` that t can give if it has `has` and is to keep `keep`. */
static uint64_t gives(const struct placement_device *d, const struct placement_tenant *t,
		      uint64_t bytes, uint64_t has, uint64_t keep)
{
	return limit(share_min(bytes, t->movable), has > keep ? has - keep : 0, d->piece);
}

static struct share_levels divide(const struct placement_device *d,
				  const struct placement_tenant *t, uint32_t n)
{
	return share_divide(share_total(d, t, n), t, n);
}

/* Part of the reserve that tenants leave. */
static uint64_t kept(const struct placement_device *d, const struct placement_tenant *t,
		     uint32_t n)
{
	return d->total - share_total(d, t, n);
}

bool placement_scarce(const struct placement_device *d, const struct placement_tenant *t,
		      uint32_t n)
{
	return !share_all(d->total, t, n);
}

uint64_t placement_share(const struct placement_device *d,
			 const struct placement_tenant *t, uint32_t n, uint32_t i)
{
	struct share_levels l;

	if (i >= n)
		return 0;
	l = divide(d, t, n);
	return share_of(&l, &t[i]);
}

void placement_shares(const struct placement_device *d, const struct placement_tenant *t,
		      uint32_t n, uint64_t *ret_share)
{
	struct share_levels l = divide(d, t, n);

	for (uint32_t i = 0; i < n; i++)
		ret_share[i] = share_of(&l, &t[i]);
}

enum victim_stage {
	VICTIM_SHARE,
	VICTIM_LOW,
	VICTIM_LEAST
};

static uint64_t victim_share(const struct placement_device *d,
			     const struct placement_tenant *t, uint32_t i,
			     const struct share_levels *l)
{
	return d->shares ? d->shares[i] : share_of(l, &t[i]);
}

static uint64_t victim_has(const struct placement_tenant *t, uint32_t i, uint32_t asks,
			   uint64_t bytes)
{
	return share_add(t[i].resident, i == asks ? share_max(bytes, t[i].wanted) : 0);
}

/* Part of `bytes` that a tenant gives in a stage that will have `has`. */
static uint64_t victim_gives(const struct placement_device *d,
			     const struct placement_tenant *t, enum victim_stage stage,
			     uint64_t bytes, uint64_t has, uint64_t share)
{
	struct share_bounds b = share_bounds(t);

	if (stage == VICTIM_SHARE)
		bytes = share_min(bytes, has > share ? has - share : 0);
	return gives(d, t, round_up(bytes, d->piece), has,
		     stage == VICTIM_LEAST ? b.least : b.low);
}

/* Bytes on the device that a tenant could not give back. */
static uint64_t fixed(const struct placement_tenant *t)
{
	return t->busy || t->movable > t->resident ? t->resident
						   : t->resident - t->movable;
}

/*
 * An allocation that is larger than what its tenant can give in turn takes from others
 * that are not above their share, and relieve() sees to it that they get that back. So a
 * tenant that cannot give back has no right to it beyond its share. Nobody gives anything
 * for what cannot be had in the end.
 */
int placement_victim(const struct placement_device *d, const struct placement_tenant *t,
		     uint32_t n, uint32_t asks, uint64_t bytes,
		     struct placement_step *ret_step)
{
	struct share_levels l = d->shares ? (struct share_levels){0} : divide(d, t, n);
	enum victim_stage last = VICTIM_SHARE;
	struct search s = {.found = false};
	share_wide device = 0, host = 0;

	if (asks >= n)
		last = VICTIM_LOW;
	else if (!fixed(&t[asks]) || fixed(&t[asks]) < victim_share(d, t, asks, &l))
		last = VICTIM_LEAST;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t give =
			victim_gives(d, &t[i], last, bytes, victim_has(t, i, asks, bytes),
				     victim_share(d, t, i, &l));

		device += give;
		host += share_min(give, t[i].evicted_room);
	}
	if (device < bytes)
		return -ENOSPC;
	if (host < bytes || d->host_room < bytes)
		return -ENOMEM;

	for (enum victim_stage stage = VICTIM_SHARE; stage <= last && !s.found; stage++) {
		for (uint32_t i = 0; i < n; i++) {
			uint64_t has = victim_has(t, i, asks, bytes);
			uint64_t share = victim_share(d, t, i, &l);
			struct distance at = {(__int128)has - share, share_weight(&t[i]),
					      0};

			offer(&s, d, &t[i], i,
			      victim_gives(d, &t[i], stage, bytes, has, share), at);
		}
	}
	return search_end(&s, ret_step);
}

static bool is_line(const struct placement_tenant *t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (t[i].turn)
			return true;
	}
	return false;
}

/* Bytes that somebody gives for a tenant, of what it is due: those later in the line wait until
 * their turn is near. What leaves for them sooner would soon be needed again, and moves for
 * nothing. */
static uint64_t due_now(const struct placement_tenant *t, uint64_t share)
{
	return share_turn(t) <= NEAR ? share : share_min(share, share_bounds(t).low);
}

/* Bytes that tenants below their share have evicted and would get if there were room. Nobody
 * gives for one that can take nothing now; but who is next does so all the time. */
static share_wide missing(const struct placement_device *d,
			  const struct placement_tenant *t, uint32_t n,
			  const struct share_levels *l)
{
	bool line = is_line(t, n);
	share_wide sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t share = due_now(&t[i], share_of(l, &t[i]));

		if ((t[i].busy && !line) || t[i].resident >= share)
			continue;
		sum += limit(t[i].evicted, share - t[i].resident, d->piece);
	}
	return sum;
}

int placement_relieve(const struct placement_device *d, const struct placement_tenant *t,
		      uint32_t n, struct placement_step *ret_step)
{
	struct share_levels l = divide(d, t, n);
	share_wide below = missing(d, t, n, &l), wide = below + kept(d, t, n);
	uint64_t bytes;
	struct search s = {.found = false};

	wide -= wide < d->free ? wide : d->free;
	bytes = wide > UINT64_MAX ? UINT64_MAX : (uint64_t)wide;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t high = share_min(t[i].high, t[i].max), has = t[i].resident;
		uint64_t over = has > high ? has - high : 0;

		offer(&s, d, &t[i], i,
		      gives(d, &t[i], round_up(over, d->piece), has,
			    share_bounds(&t[i]).least),
		      in_line(&t[i], over));
	}
	for (uint32_t i = 0; i < n && !s.found; i++) {
		uint64_t share = share_of(&l, &t[i]), has = t[i].resident;
		uint64_t over = has > share ? has - share : 0;

		/* A tenant's last piece may cross its share, and its low if another is
		 * farther below. */
		offer(&s, d, &t[i], i,
		      gives(d, &t[i], round_up(share_min(bytes, over), d->piece), has,
			    below ? share_bounds(&t[i]).least : share_bounds(&t[i]).low),
		      in_line(&t[i], over));
	}
	return search_end(&s, ret_step);
}

int placement_returns(const struct placement_device *d, const struct placement_tenant *t,
		      uint32_t n, struct placement_step *ret_step)
{
	uint64_t reserve = kept(d, t, n), free = d->free - share_min(reserve, d->free);
	struct share_levels l = divide(d, t, n);
	uint64_t best_has = 0, best_share = 0;
	struct search s = {.found = false};
	uint32_t first = PLACEMENT_TURNS;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t share = share_of(&l, &t[i]), has = t[i].resident;
		uint64_t bytes = has < share ? share_min(share - has, free) : 0;

		bytes = limit(t[i].evicted, bytes, d->piece);
		if (!bytes || share_turn(&t[i]) > first)
			continue;
		if (share_turn(&t[i]) < first)
			s = (struct search){.found = false};
		first = share_turn(&t[i]);
		if (t[i].busy) {
			s.busy = true;
			continue;
		}
		if (s.found &&
		    (share_wide)has * best_share >= (share_wide)best_has * share)
			continue;
		s.found = true;
		best_has = has;
		best_share = share;
		s.best = (struct placement_step){.tenant = i, .bytes = bytes};
	}
	return search_end(&s, ret_step);
}

uint32_t placement_session_leaves(const struct placement_session *s, uint32_t n)
{
	uint32_t best = n;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t idle = s[i].idle_ns < IDLE_NS ? 0 : s[i].idle_ns;
		uint64_t best_idle;

		if (s[i].busy || !s[i].movable)
			continue;
		if (best == n) {
			best = i;
			continue;
		}
		best_idle = s[best].idle_ns < IDLE_NS ? 0 : s[best].idle_ns;
		if (idle > best_idle ||
		    (idle == best_idle && s[i].movable > s[best].movable))
			best = i;
	}
	return best;
}

uint32_t placement_session_comes(const struct placement_session *s, uint32_t n)
{
	uint32_t best = n;

	for (uint32_t i = 0; i < n; i++) {
		if (s[i].busy || !s[i].evicted)
			continue;
		if (best == n || s[i].idle_ns < s[best].idle_ns)
			best = i;
	}
	return best;
}

enum placement_where placement_where_idle(const struct placement_session *s)
{
	return s->turns || s->idle_ns >= EVICTED_NS ? PLACE_SWAPPED : PLACE_MAPPED;
}

enum placement_where placement_where_mapped(const struct placement_session *s)
{
	(void)s;
	return PLACE_MAPPED;
}
