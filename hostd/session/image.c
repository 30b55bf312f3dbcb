/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "session/image.h"
#include "ipc/wmem.h"

struct entry {
	struct list link;
	uint64_t id, got;
	struct image image;
};

struct images {
	const struct accounts *broker;
	pthread_mutex_t lock;
	struct list entries;
	unsigned count;
	uint64_t bytes, kept;
};

int images_new(const struct accounts *broker, struct images **ret_i)
{
	struct images *i = calloc(1, sizeof(*i));

	if (!i)
		return -ENOMEM;
	i->broker = broker;
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

void image_free(struct images *i, struct image *img)
{
	wmem_put(i->broker, img->charged);
	free(img->data);
	*img = (struct image){0};
}

static void remove_locked(struct images *i, struct entry *e)
{
	list_remove(&e->link);
	i->count--;
	i->bytes -= e->image.size;
	image_free(i, &e->image);
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

/* Takes over what was charged. */
static struct entry *begin_locked(struct images *i, uint64_t id, uint64_t total)
{
	struct entry *e;

	if (i->count >= IMAGES_MAX || total > IMAGES_BYTES_MAX - i->bytes)
		return NULL;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->image.data = malloc(total + 1);
	if (!e->image.data) {
		free(e);
		return NULL;
	}
	e->id = id;
	e->image.size = e->image.charged = total;
	list_append(&i->entries, &e->link);
	i->count++;
	i->bytes += total;
	return e;
}

/* *charge: what was charged for one that begins; 0 once it has begun. */
static int add_locked(struct images *i, uint64_t id, uint64_t offset, uint64_t total,
		      const void *data, uint32_t size, uint64_t *charge)
{
	struct entry *e = find_locked(i, id);

	if (!e && offset == 0) {
		e = begin_locked(i, id, total);
		if (e)
			*charge = 0;
	}
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
	uint64_t charge = offset ? 0 : total;
	int r;

	if (charge > IMAGES_BYTES_MAX || wmem_take(i->broker, charge) < 0)
		return -ENOMEM;
	pthread_mutex_lock(&i->lock);
	r = add_locked(i, id, offset, total, data, size, &charge);
	pthread_mutex_unlock(&i->lock);
	wmem_put(i->broker, charge);
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
		e->image.charged = 0;
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

static int count_kept(struct images *i, uint64_t bytes)
{
	bool fits;

	pthread_mutex_lock(&i->lock);
	fits = bytes <= IMAGES_KEPT_MAX - i->kept;
	if (fits)
		i->kept += bytes;
	pthread_mutex_unlock(&i->lock);
	return fits ? 0 : -ENOMEM;
}

static void uncount_kept(struct images *i, uint64_t bytes)
{
	pthread_mutex_lock(&i->lock);
	i->kept -= bytes;
	pthread_mutex_unlock(&i->lock);
}

int images_charge(struct images *i, uint64_t bytes)
{
	int r = count_kept(i, bytes);

	if (r == 0 && wmem_take(i->broker, bytes) < 0) {
		uncount_kept(i, bytes);
		r = -ENOMEM;
	}
	return r;
}

void images_uncharge(struct images *i, uint64_t bytes)
{
	uncount_kept(i, bytes);
	wmem_put(i->broker, bytes);
}

int images_keep(struct images *i, struct image *img, struct image *ret_image)
{
	uint64_t more = img->size - img->charged; /* of what was made here */
	int r = count_kept(i, img->size);

	if (r < 0)
		return r;
	if (wmem_take(i->broker, more) < 0) {
		uncount_kept(i, img->size);
		return -ENOMEM;
	}
	img->charged += more;
	*ret_image = *img;
	*img = (struct image){0};
	return 0;
}

void images_unkeep(struct images *i, struct image *img)
{
	if (!img->data)
		return;
	uncount_kept(i, img->size);
	image_free(i, img);
}
