/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "device/device.h"
#include "device/soft/output.h"
#include "simt/simt.h"

/* Before each record in the ring. */
struct record {
	uint32_t bytes;
	uint32_t is_text; /* else for simt_printf_text() */
};

void soft_output_init(struct soft_output *o, const struct device_config *cfg)
{
	*o = (struct soft_output){.cfg = cfg, .limit = SOFT_OUTPUT_DEFAULT};
	pthread_mutex_init(&o->lock, NULL);
	pthread_mutex_init(&o->flushing, NULL);
}

void soft_output_fini(struct soft_output *o)
{
	free(o->ring);
	pthread_mutex_destroy(&o->lock);
	pthread_mutex_destroy(&o->flushing);
}

static void ring_put(struct soft_output *o, const void *data, size_t n)
{
	size_t at = (o->start + o->used) % o->size, part = MIN(n, o->size - at);

	memcpy(o->ring + at, data, part);
	memcpy(o->ring, (const char *)data + part, n - part);
	o->used += n;
}

static void ring_get(struct soft_output *o, void *data, size_t n)
{
	size_t part = MIN(n, o->size - o->start);

	memcpy(data, o->ring + o->start, part);
	memcpy((char *)data + part, o->ring, n - part);
	o->start = (o->start + n) % o->size;
	o->used -= n;
}

static void ring_drop_oldest(struct soft_output *o)
{
	struct record r;

	ring_get(o, &r, sizeof(r));
	o->start = (o->start + r.bytes) % o->size;
	o->used -= r.bytes;
}

static int output_put(struct soft_output *o, const void *data, size_t bytes, bool is_text)
{
	struct record r = {(uint32_t)bytes, is_text};
	int ret = -ENOBUFS;

	pthread_mutex_lock(&o->lock);
	if (!o->ring) {
		o->size = o->limit;
		o->ring = malloc(o->size);
		o->start = o->used = 0;
	}
	if (o->ring && bytes <= o->size - sizeof(r)) {
		while (o->size - o->used < bytes + sizeof(r))
			ring_drop_oldest(o);
		ring_put(o, &r, sizeof(r));
		ring_put(o, data, bytes);
		__atomic_store_n(&o->any, true, __ATOMIC_RELEASE);
		ret = 0;
	}
	pthread_mutex_unlock(&o->lock);
	return ret;
}

int soft_output_print(struct soft_output *o, const void *rec, size_t bytes)
{
	return output_put(o, rec, bytes, false);
}

void soft_output_text(struct soft_output *o, const char *text)
{
	output_put(o, text, strlen(text), true);
}

static void show(const struct device_config *cfg, const char *text, size_t size)
{
	if (cfg->output && size)
		cfg->output(cfg->output_arg, text, size);
}

static void show_printf(const struct device_config *cfg, const void *rec, size_t bytes)
{
	char small[1024], *text = small;
	int n = simt_printf_text(rec, bytes, small, sizeof(small));

	if (n >= (int)sizeof(small)) {
		text = malloc((size_t)n + 1);
		if (!text)
			return;
		n = simt_printf_text(rec, bytes, text, (size_t)n + 1);
	}
	if (n > 0)
		show(cfg, text, (size_t)n);
	if (text != small)
		free(text);
}

void soft_output_flush(struct soft_output *o)
{
	struct soft_output all;

	/* Acquire: pairs with the release in output_put(). */
	if (!__atomic_load_n(&o->any, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&o->flushing);
	pthread_mutex_lock(&o->lock);
	all = *o;
	o->ring = NULL;
	__atomic_store_n(&o->any, false, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&o->lock);
	while (all.ring && all.used) {
		struct record r;
		char *data;

		ring_get(&all, &r, sizeof(r));
		data = malloc(r.bytes + 1u);
		if (!data)
			break;
		ring_get(&all, data, r.bytes);
		if (r.is_text)
			show(o->cfg, data, r.bytes);
		else
			show_printf(o->cfg, data, r.bytes);
		free(data);
	}
	free(all.ring);
	pthread_mutex_unlock(&o->flushing);
}
