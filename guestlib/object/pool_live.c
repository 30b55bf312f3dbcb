/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations in stream order that were not freed yet: a free that is known to be right
 * need not wait for the worker's word. An allocation that is not in here (out of memory,
 * or freed by another call) costs a wait and nothing else.
 *
 * Open addressing: an entry that is taken out is replaced by a later one whose own place
 * is there or before.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/macros.h"
#include "object/pool.h"

#define ROOM_FIRST 1024u /* powers of two */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t *table; /* 0: free */
static size_t room, n_live;

static size_t own(uint64_t ptr)
{
	return (size_t)(ptr * 0x9e3779b97f4a7c15ull >> 32) & (room - 1);
}

static void insert_locked(uint64_t ptr)
{
	size_t i = own(ptr);

	while (table[i] && table[i] != ptr)
		i = (i + 1) & (room - 1);
	n_live += !table[i];
	table[i] = ptr;
}

static bool grow_locked(void)
{
	size_t old_room = room;
	uint64_t *old = table, *p;

	p = calloc(room ? 2 * room : ROOM_FIRST, sizeof(*p));
	if (!p)
		return false;
	room = room ? 2 * room : ROOM_FIRST;
	table = p;
	n_live = 0;
	for (size_t i = 0; i < old_room; i++) {
		if (old[i])
			insert_locked(old[i]);
	}
	free(old);
	return true;
}

void pool_live_add(uint64_t ptr)
{
	pthread_mutex_lock(&lock);
	if (2 * n_live < room || grow_locked())
		insert_locked(ptr);
	pthread_mutex_unlock(&lock);
}

static void remove_locked(size_t hole)
{
	table[hole] = 0;
	n_live--;
	for (size_t i = (hole + 1) & (room - 1); table[i]; i = (i + 1) & (room - 1)) {
		size_t want = own(table[i]);

		/* Is the hole between where it wants to be and where it is? */
		if (((i - want) & (room - 1)) < ((i - hole) & (room - 1)))
			continue;
		table[hole] = table[i];
		table[i] = 0;
		hole = i;
	}
}

bool pool_live_take(uint64_t ptr)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	if (room && ptr) {
		size_t i = own(ptr);

		while (table[i] && table[i] != ptr)
			i = (i + 1) & (room - 1);
		found = table[i];
		if (found)
			remove_locked(i);
	}
	pthread_mutex_unlock(&lock);
	return found;
}
