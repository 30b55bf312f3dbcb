/* SPDX-License-Identifier: Apache-2.0 */
/* Users: a number for each child, which no other process has. */
#ifndef WEFT_BROKER_USERS_H
#define WEFT_BROKER_USERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct users {
	uint32_t first, n; /* n 0: all run as one */
	uint32_t next;
	gid_t gid; /* of all of them */
	uint64_t *taken;
};

/* Takes n numbers from first on; root's only. group_of as in sandbox_ids(). Returns 0 or
 * -errno. */
int users_open(struct users *u, uint32_t first, uint32_t n, const char *group_of);
void users_fini(struct users *u);
/* Returns a number that nobody has, or 0 if there is none. */
uint32_t users_take(struct users *u);
/* Takes a number that a child of another weftd has. */
void users_take_again(struct users *u, uint32_t uid);
void users_give_back(struct users *u, uint32_t uid);
/* Returns true if the name space with that uid_map has all of the n numbers. */
bool users_known(const char *uid_map, uint32_t first, uint32_t n);

#endif
