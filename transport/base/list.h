/* SPDX-License-Identifier: Apache-2.0 */
/* Intrusive doubly linked list with a sentinel head. Not thread-safe. */
#ifndef WEFT_BASE_LIST_H
#define WEFT_BASE_LIST_H

#include <stdbool.h>

#include "base/macros.h"

struct list {
	struct list *prev, *next;
};

static inline void list_init(struct list *l)
{
	l->prev = l->next = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_insert_after(struct list *pos, struct list *e)
{
	e->prev = pos;
	e->next = pos->next;
	pos->next->prev = e;
	pos->next = e;
}

static inline void list_append(struct list *head, struct list *e)
{
	list_insert_after(head->prev, e);
}

/* Unlinks e and leaves it an empty list, so that a second removal does nothing. */
static inline void list_remove(struct list *e)
{
	e->prev->next = e->next;
	e->next->prev = e->prev;
	list_init(e);
}

#define list_entry(e, type, member) container_of(e, type, member)

#define list_for_each(pos, head, member)                                                 \
	for ((pos) = list_entry((head)->next, __typeof__(*(pos)), member);               \
	     &(pos)->member != (head);                                                   \
	     (pos) = list_entry((pos)->member.next, __typeof__(*(pos)), member))

#define list_for_each_safe(pos, tmp, head, member)                                       \
	for ((pos) = list_entry((head)->next, __typeof__(*(pos)), member),               \
	    (tmp) = list_entry((pos)->member.next, __typeof__(*(pos)), member);          \
	     &(pos)->member != (head); (pos) = (tmp),                                    \
	    (tmp) = list_entry((pos)->member.next, __typeof__(*(pos)), member))

#endif
