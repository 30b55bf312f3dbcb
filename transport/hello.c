/* SPDX-License-Identifier: Apache-2.0 */
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
	/* Higher versions than ours are fine: the guest says whether it speaks ours. */
	if (h->version < WIRE_VERSION_MIN)
		return -EPROTONOSUPPORT;
	if (!(h->offers & HELLO_OFFERS))
		return -EPROTO;
	if (!(h->offers & WIRE_OFFER_KEY) != !h->window_key)
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

/* Checks the session's kind of window and its size. */
static int check_window(const struct wire_welcome *w, uint32_t offers)
{
	uint64_t status = sizeof(struct wire_status);

	switch (w->window) {
	case WIRE_WINDOW_NONE:
		return w->window_size || w->status_offset ? -EPROTO : 0;
	case WIRE_WINDOW_KEY:
		if (!(offers & WIRE_OFFER_KEY))
			return -EPROTO;
		break;
	case WIRE_WINDOW_DESCRIPTOR:
		if (!(offers & WIRE_OFFER_DESCRIPTOR))
			return -EPROTO;
		break;
	default:
		return -EPROTO;
	}
	if (w->status_offset % 64 || !fits(w->status_offset, status, w->window_size))
		return -EPROTO;
	return 0;
}

/* Where in the window the lane is, if it is there. */
static int check_lane(const struct wire_welcome *w, uint32_t offers)
{
	if (w->carrier == WIRE_CARRIER_STREAM)
		return offers & WIRE_OFFER_STREAM ? 0 : -EPROTO;
	if (w->carrier != WIRE_CARRIER_WINDOW || w->window == WIRE_WINDOW_NONE)
		return -EPROTO;
	if (w->lane_offset % 4096 || w->lane_size < RING_LANE_MIN ||
	    w->lane_size % 4096 || !fits(w->lane_offset, w->lane_size, w->window_size))
		return -EPROTO;
	return 0;
}

int welcome_check(const struct wire_welcome *w, uint32_t offers)
{
	int r;

	if (w->magic != WIRE_MAGIC)
		return -EPROTO;
	if (w->error)
		return w->error < 0 && w->error > -4096 ? w->error : -EPROTO;
	if (w->version < WIRE_VERSION_MIN || w->version > WIRE_VERSION)
		return -EPROTONOSUPPORT;
	if (all_zero(w->token, sizeof(w->token)))
		return -EPROTO;
	if (w->band_base % 4096 || w->band_size % 4096 ||
	    w->band_base + w->band_size < w->band_base)
		return -EPROTO;
	r = check_window(w, offers);
	return r < 0 ? r : check_lane(w, offers);
}
