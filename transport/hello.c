// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "hello.h"
#include "ring.h"

static bool all_zero(const void *p, size_t len)
{
	const unsigned char *c = p;

	while (len--)
		if (*c++)
			return false;
	return true;
}

int hello_check(struct wire_hello *h)
{
	size_t len;

	if (h->magic != WIRE_MAGIC)
		return -EPROTO;
	/* Higher versions than ours are fine: the guest speaks all below, too. */
	if (h->version < 1)
		return -EPROTONOSUPPORT;
	if (!(h->carriers & HELLO_CARRIERS))
		return -EPROTO;
	/* Lane 0 has no token yet, and no other lane can do without. */
	if (all_zero(h->token, sizeof(h->token)) != (h->lane == 0))
		return -EPROTO;
	len = strnlen(h->name, sizeof(h->name));
	if (len == sizeof(h->name) || !all_zero(h->name + len, sizeof(h->name) - len))
		return -EPROTO;
	for (size_t i = 0; i < len; i++)
		if (h->name[i] < ' ' || h->name[i] > '~')
			h->name[i] = '?';
	return 0;
}

static bool fits(uint64_t offset, uint64_t size, uint64_t whole)
{
	return offset <= whole && size <= whole - offset;
}

int welcome_check(const struct wire_welcome *w, uint32_t carriers)
{
	if (w->magic != WIRE_MAGIC || w->pad)
		return -EPROTO;
	if (w->error)
		return w->error < 0 && w->error > -4096 ? w->error : -EPROTO;
	if (w->version < 1 || w->version > WIRE_VERSION)
		return -EPROTONOSUPPORT;
	if (w->carrier >= WIRE_NUM_CARRIERS || !(carriers & 1u << w->carrier))
		return -EPROTO;
	if (all_zero(w->token, sizeof(w->token)))
		return -EPROTO;
	if (w->band_base % 4096 || w->band_size % 4096 ||
	    w->band_base + w->band_size < w->band_base)
		return -EPROTO;
	if (w->window_size &&
	    !fits(w->status_offset, sizeof(struct wire_status), w->window_size))
		return -EPROTO;
	if (w->status_offset % 64)
		return -EPROTO;
	if (w->carrier != WIRE_CARRIER_WINDOW)
		return 0;
	if (w->lane_offset % 4096 || w->lane_size < RING_LANE_MIN ||
	    w->lane_size % 4096 || !fits(w->lane_offset, w->lane_size, w->window_size))
		return -EPROTO;
	return 0;
}
