/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/macros.h"
#include "device/rewrite/table.h"

#define FIRST_SLOTS 64

struct slot {
	_Atomic(const void *) key; /* NULL: free; never set back */
	_Atomic(void *) value;     /* NULL: removed */
};

struct table_slots {
	struct table_slots *before; /* a smaller one */
	size_t n;                   /* a power of two */
	struct slot slot[];
};

static size_t hash(const void *key)
{
	uint64_t h = (uintptr_t)key * 0x9e3779b97f4a7c15ull;

	return (size_t)(h >> 20);
}

/* The slot of key, or the free one where it belongs; one is always free. */
static struct slot *slot_of(struct table_slots *s, const void *key)
{
	for (size_t i = hash(key);; i++) {
		struct slot *slot = &s->slot[i & (s->n - 1)];
		/* acquire: pairs with put(). */
		const void *has = atomic_load_explicit(&slot->key, memory_order_acquire);

		if (!has || has == key)
			return slot;
	}
}

static struct table_slots *slots_of(const struct table *t)
{
	return atomic_load_explicit(&t->slots, memory_order_acquire);
}

void *table_find(const struct table *t, const void *key)
{
	struct table_slots *s = slots_of(t);

	return s ? atomic_load_explicit(&slot_of(s, key)->value, memory_order_acquire)
		 : NULL;
}

static void put(struct table *t, struct table_slots *s, const void *key, void *value)
{
	struct slot *slot = slot_of(s, key);

	atomic_store_explicit(&slot->value, value, memory_order_release);
	if (atomic_load_explicit(&slot->key, memory_order_relaxed))
		return;
	/* release: a key is there with its value. */
	atomic_store_explicit(&slot->key, key, memory_order_release);
	t->used++;
}

/* Twice as large as what it has needs, without removed keys. */
static int grow(struct table *t)
{
	struct table_slots *old = slots_of(t), *new;
	size_t n = FIRST_SLOTS, has = 0;

	for (size_t i = 0; old && i < old->n; i++)
		has += old->slot[i].value != NULL;
	while (n < 4 * has)
		n *= 2;
	new = calloc(1, sizeof(*new) + n * sizeof(new->slot[0]));
	if (!new)
		return -ENOMEM;
	new->n = n;
	new->before = old;
	t->used = 0;
	for (size_t i = 0; old && i < old->n; i++) {
		if (old->slot[i].value)
			put(t, new, old->slot[i].key, old->slot[i].value);
	}
	atomic_store_explicit(&t->slots, new, memory_order_release);
	return 0;
}

int table_add(struct table *t, const void *key, void *value)
{
	struct table_slots *s = slots_of(t);

	if ((!s || 2 * (t->used + 1) > s->n) && grow(t) < 0)
		return -ENOMEM;
	put(t, slots_of(t), key, value);
	return 0;
}

void *table_remove(struct table *t, const void *key)
{
	struct table_slots *s = slots_of(t);

	return s ? atomic_exchange(&slot_of(s, key)->value, NULL) : NULL;
}

void *table_next(const struct table *t, size_t *at, const void **ret_key)
{
	struct table_slots *s = slots_of(t);

	while (s && *at < s->n) {
		struct slot *slot = &s->slot[(*at)++];

		if (!slot->value)
			continue;
		*ret_key = slot->key;
		return slot->value;
	}
	return NULL;
}

void table_fini(struct table *t)
{
	struct table_slots *s = slots_of(t);

	while (s) {
		struct table_slots *before = s->before;

		free(s);
		s = before;
	}
	*t = (struct table){0};
}
