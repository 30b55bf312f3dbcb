/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/cap.h"

#define NS_PER_US 1000ull
/* More is not owed: such numbers are wrong ones. */
#define OWED_MOST_NS (INT64_MAX / 4)

/* In nanoseconds, and never 0. */
static uint64_t bounded(uint64_t us)
{
	const uint64_t least = CAP_MIN_US * NS_PER_US, most = CAP_MAX_US * NS_PER_US;
	uint64_t ns = us * NS_PER_US;

	return ns < least ? least : ns > most ? most : ns;
}

/* Goes on to the period that now is in. */
static void advance(struct cap_state *s, uint64_t quota, uint64_t period, uint64_t now_ns)
{
	uint64_t n;

	if (!s->period_ns || now_ns < s->period_ns) {
		s->period_ns = now_ns;
		s->left_ns = (int64_t)quota;
		return;
	}
	n = (now_ns - s->period_ns) / period;
	s->period_ns += n * period;
	if (s->left_ns <= 0 && n <= (uint64_t)-s->left_ns / quota + 1)
		s->left_ns += (int64_t)(n * quota);
	else if (n)
		s->left_ns = (int64_t)quota;
}

uint64_t cap_charge(struct cap_state *s, const struct cap *c, uint64_t now_ns,
		    uint64_t used_ns)
{
	uint64_t quota = bounded(c->quota_us), period = bounded(c->period_us), n;

	s->until_ns = 0;
	if (!c->quota_us || quota >= period)
		return 0;
	if (s->left_ns < -OWED_MOST_NS)
		s->left_ns = -OWED_MOST_NS;
	advance(s, quota, period, now_ns);
	if (used_ns > (uint64_t)OWED_MOST_NS)
		used_ns = OWED_MOST_NS;
	if (s->left_ns > -OWED_MOST_NS)
		s->left_ns -= (int64_t)used_ns;
	if (s->left_ns > 0)
		return 0;
	/* Periods until the quotas are more than what is owed. */
	n = (uint64_t)-s->left_ns / quota + 1;
	s->until_ns = n < (UINT64_MAX - s->period_ns) / period ? s->period_ns + n * period
							       : UINT64_MAX;
	return s->until_ns;
}
