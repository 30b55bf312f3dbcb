/* SPDX-License-Identifier: Apache-2.0 */
/* Locks that are held to the end of the scope, one of each kind in a scope. */
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

static inline void lock_rw_unlockp(pthread_rwlock_t **lock)
{
	pthread_rwlock_unlock(*lock);
}

static inline pthread_rwlock_t *lock_read(pthread_rwlock_t *lock)
{
	pthread_rwlock_rdlock(lock);
	return lock;
}

#define scoped_lock(m)                                                                   \
	_cleanup_(lock_unlockp) pthread_mutex_t *_held __attribute__((unused)) =         \
		lock_hold(m)

/* For reading. */
#define scoped_read(m)                                                                   \
	_cleanup_(lock_rw_unlockp) pthread_rwlock_t *_read __attribute__((unused)) =     \
		lock_read(m)

#endif
