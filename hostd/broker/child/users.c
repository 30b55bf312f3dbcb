/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of users that nobody has: each worker and listener of root's daemon gets one of
 * its own, so that one which was taken over is a stranger to all others.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "broker/child/users.h"
#include "util/sandbox.h"

#define BITS 64u

/* A name space may know a few users only. */
bool users_known(const char *uid_map, uint32_t first, uint32_t n)
{
	unsigned long long at, above, count;
	FILE *f = fopen(uid_map, "re");
	bool known = false;

	/* NOLINTNEXTLINE(cert-err34-c): the kernel writes no number that does not fit */
	while (f && !known && fscanf(f, "%llu %llu %llu", &at, &above, &count) == 3)
		known = first >= at && (uint64_t)first + n <= at + count;
	if (f)
		fclose(f);
	return known;
}

int users_open(struct users *u, uint32_t first, uint32_t n, const char *group_of)
{
	uid_t uid;
	int r;

	*u = (struct users){0};
	if (geteuid() != 0)
		return 0;
	r = sandbox_ids(group_of, &uid, &u->gid);
	if (r < 0 || !n)
		return r;
	if (!users_known("/proc/self/uid_map", first, n)) {
		log_warning(
			"users %u to %u do not exist in this user name space: workers "
			"and listeners run as one user",
			first, first + n - 1);
		return 0;
	}
	u->taken = calloc((n + BITS - 1) / BITS, sizeof(*u->taken));
	if (!u->taken)
		return -ENOMEM;
	u->first = first;
	u->n = n;
	return 0;
}

void users_fini(struct users *u)
{
	free(u->taken);
	*u = (struct users){0};
}

/* The one given back last is used last: what it left behind may take a moment to go. */
uint32_t users_take(struct users *u)
{
	for (uint32_t i = 0; i < u->n; i++) {
		uint32_t at = u->next;

		u->next = (u->next + 1) % u->n;
		if (u->taken[at / BITS] & 1ull << at % BITS)
			continue;
		u->taken[at / BITS] |= 1ull << at % BITS;
		return u->first + at;
	}
	return 0;
}

void users_take_again(struct users *u, uint32_t uid)
{
	uint32_t at = uid - u->first;

	if (uid && at < u->n)
		u->taken[at / BITS] |= 1ull << at % BITS;
}

void users_give_back(struct users *u, uint32_t uid)
{
	uint32_t at = uid - u->first;

	if (uid && at < u->n)
		u->taken[at / BITS] &= ~(1ull << at % BITS);
}
