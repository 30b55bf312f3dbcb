/* SPDX-License-Identifier: Apache-2.0 */
/* A lock that is held to the end of the scope, one in a scope. */
#ifndef WEFT_BASE_LOCK_H
#define WEFT_BASE_LOCK_H

#include <pthread.h>

#include "base/macros.h"

static inline void lock_unlockp(pthread_mutex_t **lock)
{
	pthread_mutex_unlock(*lock);
}

static inline pthread_mutex_t *lock_hold(pthread_mutex_t *lock)
{
	pthread_mutex_lock(lock);
	return lock;
}

#define scoped_lock(m)                                                                   \
	_cleanup_(lock_unlockp) pthread_mutex_t *_held __attribute__((unused)) =         \
		lock_hold(m)

#endif
