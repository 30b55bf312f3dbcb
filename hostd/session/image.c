/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "session/image.h"

struct entry {
	struct list link;
	uint64_t id, got;
	struct image image;
};

struct images {
	pthread_mutex_t lock;
	struct list entries;
	unsigned count;
	uint64_t bytes, kept;
};

int images_new(struct images **ret_i)
{
	struct images *i = calloc(1, sizeof(*i));

	if (!i)
		return -ENOMEM;
	pthread_mutex_init(&i->lock, NULL);
	list_init(&i->entries);
	*ret_i = i;
	return 0;
}

static struct entry *find_locked(struct images *i, uint64_t id)
{
	struct entry *e;

	list_for_each (e, &i->entries, link) {
		if (e->id == id)
			return e;
	}
	return NULL;
}

static void remove_locked(struct images *i, struct entry *e)
{
	list_remove(&e->link);
	i->count--;
	i->bytes -= e->image.size;
	free(e->image.data);
	free(e);
}

void images_free(struct images *i)
{
	struct entry *e, *tmp;

	if (!i)
		return;
	list_for_each_safe (e, tmp, &i->entries, link)
		remove_locked(i, e);
	pthread_mutex_destroy(&i->lock);
	free(i);
}

static struct entry *begin_locked(struct images *i, uint64_t id, uint64_t total)
{
	struct entry *e;

	if (i->count >= IMAGES_MAX || total > IMAGES_BYTES_MAX - i->bytes)
		return NULL;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	/* Touched as the pieces come: a lie about the total costs addresses only. */
	e->image.data = malloc(total + 1);
	if (!e->image.data) {
		free(e);
		return NULL;
	}
	e->id = id;
	e->image.size = total;
	list_append(&i->entries, &e->link);
	i->count++;
	i->bytes += total;
	return e;
}

static int add_locked(struct images *i, uint64_t id, uint64_t offset, uint64_t total,
		      const void *data, uint32_t size)
{
	struct entry *e = find_locked(i, id);

	if (!e && offset == 0)
		e = begin_locked(i, id, total);
	if (!e)
		return offset ? -EPROTO : -ENOMEM;
	if (offset != e->got || total != e->image.size || size > total - offset) {
		remove_locked(i, e);
		return -EPROTO;
	}
	memcpy((char *)e->image.data + offset, data, size);
	e->got += size;
	return 0;
}

int images_add(struct images *i, uint64_t id, uint64_t offset, uint64_t total,
	       const void *data, uint32_t size)
{
	int r;

	pthread_mutex_lock(&i->lock);
	r = add_locked(i, id, offset, total, data, size);
	pthread_mutex_unlock(&i->lock);
	return r;
}

int images_take(struct images *i, uint64_t id, struct image *ret_image)
{
	struct entry *e;
	int r = -ENOENT;

	pthread_mutex_lock(&i->lock);
	e = find_locked(i, id);
	if (e && e->got == e->image.size) {
		*ret_image = e->image;
		((char *)ret_image->data)[ret_image->size] = '\0';
		e->image.data = NULL;
		remove_locked(i, e);
		r = 0;
	}
	pthread_mutex_unlock(&i->lock);
	return r;
}

void images_drop(struct images *i, uint64_t id)
{
	struct entry *e;

	pthread_mutex_lock(&i->lock);
	e = find_locked(i, id);
	if (e)
		remove_locked(i, e);
	pthread_mutex_unlock(&i->lock);
}

int images_charge(struct images *i, uint64_t bytes)
{
	bool fits;

	pthread_mutex_lock(&i->lock);
	fits = bytes <= IMAGES_KEPT_MAX - i->kept;
	if (fits)
		i->kept += bytes;
	pthread_mutex_unlock(&i->lock);
	return fits ? 0 : -ENOMEM;
}

void images_uncharge(struct images *i, uint64_t bytes)
{
	pthread_mutex_lock(&i->lock);
	i->kept -= bytes;
	pthread_mutex_unlock(&i->lock);
}

int images_keep(struct images *i, struct image *img, struct image *ret_image)
{
	int r = images_charge(i, img->size);

	if (r < 0)
		return r;
	*ret_image = *img;
	*img = (struct image){0};
	return 0;
}

void images_unkeep(struct images *i, struct image *img)
{
	if (!img->data)
		return;
	images_uncharge(i, img->size);
	free(img->data);
	*img = (struct image){0};
}
