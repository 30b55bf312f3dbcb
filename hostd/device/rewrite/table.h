/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of what is known of addresses. Found by any thread without a lock; whoever adds and
 * removes has one. Tables that were grown out of stay until the end, for those that may be looking.
 */
#ifndef WEFT_DEVICE_REWRITE_TABLE_H
#define WEFT_DEVICE_REWRITE_TABLE_H

#include <stdatomic.h>
#include <stddef.h>

struct table_slots;

struct table {
	_Atomic(struct table_slots *) slots; /* NULL: empty */
	size_t used;                         /* slots, also those of removed keys */
};

/* NULL: nothing is known. */
void *table_find(const struct table *t, const void *key);
/* Replaces what was known. Returns 0 or -ENOMEM. */
int table_add(struct table *t, const void *key, void *value);
/* Returns what was known, or NULL. */
void *table_remove(struct table *t, const void *key);
/* The next one from *at on, which begins with 0, or NULL: for whoever adds and removes. */
void *table_next(const struct table *t, size_t *at, const void **ret_key);
/* Nobody looks any more. */
void table_fini(struct table *t);

#endif
