/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slice of a session: a page with the status line, then slots for lanes: large ones,
 * then small ones, so that programs of many threads have enough. A slot is taken, a large
 * one while there is one, when a lane begins and given back when it is freed. Sessions
 * with more threads than slots go on with streams: slower, but they go on.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "carrier.h"
#include "hello.h"
#include "host.h"

#define SLICE_HEAD 4096u
/* Bulk rings of about 4 MiB: four pieces of the largest size in flight. */
#define SLOT_MAX (RING_CTL_SIZE + 2ull * RING_SIZE + (8ull << 20))
/* Large slots at least, or a quarter of the slice, if that is more. A small slice is cut
 * in this many, unless that makes slots too small. */
#define SLOTS_LARGE 4u

struct slots {
	uint64_t large, small; /* sizes */
	unsigned n_large, n;
};

static struct slots slots_of(const struct host_window *w)
{
	struct slots s = {.small = RING_LANE_MIN};
	uint64_t room, n;

	if (w->size < SLICE_HEAD + RING_LANE_MIN)
		return s;
	room = w->size - SLICE_HEAD;
	s.large = ALIGN_DOWN(room / SLOTS_LARGE, 4096ull);
	s.large = MIN(MAX(s.large, s.small), (uint64_t)SLOT_MAX);
	n = MAX(room / 4 / s.large, (uint64_t)SLOTS_LARGE);
	s.n_large = (unsigned)MIN(MIN(n, room / s.large), (uint64_t)WIRE_SESSIONS_MAX);
	n = s.n_large + (room - s.n_large * s.large) / s.small;
	s.n = (unsigned)MIN(n, (uint64_t)WIRE_SESSIONS_MAX);
	return s;
}

static int slot_take(struct host_window *w, unsigned n, unsigned *ret_slot)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t bit = 1ull << i % 64;

		if (!(atomic_fetch_or_explicit(&w->slots[i / 64], bit,
					       memory_order_acquire) &
		      bit)) {
			*ret_slot = i;
			return 0;
		}
	}
	return -ENOSPC;
}

static void slot_give_back(void *owner, unsigned slot)
{
	struct host_window *w = owner;

	/* Pairs with slot_take(): the lane before is done with the memory. */
	atomic_fetch_and_explicit(&w->slots[slot / 64], ~(1ull << slot % 64),
				  memory_order_release);
}

/* A guest that could cut the file short could kill its worker with SIGBUS. */
static int check_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0)
		return -errno;
	return seals & F_SEAL_SHRINK ? 0 : -EPERM;
}

int host_window_map(struct host_window *w)
{
	void *map;
	int r;

	if (!w->size)
		return 0;
	if (w->offset % 4096 || w->offset + w->size < w->offset)
		return -EINVAL;
	if (w->pass_fd) {
		r = check_sealed(w->fd);
		if (r < 0)
			return r;
	}
	map = mmap(NULL, w->size, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd,
		   (off_t)w->offset);
	if (map == MAP_FAILED)
		return -errno;
	/* A slice of a VM's window may still hold what its last user left there. */
	if (w->key && madvise(map, w->size, MADV_REMOVE) < 0)
		memset(map, 0, w->size);
	memset(map, 0, SLICE_HEAD);
	memset(w->slots, 0, sizeof(w->slots));
	w->map = map;
	return 0;
}

void host_window_fini(struct host_window *w)
{
	if (w->map)
		munmap(w->map, w->size);
	w->map = NULL;
}

struct wire_status *host_status(const struct host_window *w)
{
	return w ? w->map : NULL;
}

/* Reads exactly len bytes until the deadline, whatever the socket's flags are. */
static int read_until(int sock, void *buf, size_t len, uint64_t deadline_ns)
{
	char *p = buf;

	while (len) {
		struct pollfd pfd = {.fd = sock, .events = POLLIN};
		uint64_t now = clock_now_ns();
		ssize_t n;

		n = recv(sock, p, len, MSG_DONTWAIT);
		if (n == 0)
			return -ENODATA;
		if (n > 0) {
			p += n;
			len -= (size_t)n;
			continue;
		}
		if (errno == ECONNRESET || errno == EPIPE)
			return -ENODATA;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		if (now >= deadline_ns)
			return -ETIMEDOUT;
		poll(&pfd, 1,
		     (int)((deadline_ns - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC));
	}
	return 0;
}

int host_refuse(int sock, int error)
{
	struct wire_welcome w = {.magic = WIRE_MAGIC, .version = WIRE_VERSION};

	w.error = error < 0 ? error : -EPROTO;
	return fd_write_full(sock, &w, sizeof(w));
}

int host_hello(int sock, int timeout_ms, struct wire_hello *ret_hello)
{
	uint64_t deadline = clock_now_ns() + (uint64_t)MAX(timeout_ms, 0) * NSEC_PER_MSEC;
	struct wire_hello h;
	int r;

	r = read_until(sock, &h, sizeof(h), deadline);
	if (r < 0)
		return r;
	r = hello_check(&h);
	if (r == -EPROTONOSUPPORT)
		(void)host_refuse(sock, r);
	if (r < 0)
		return r;
	*ret_hello = h;
	return 0;
}

/* Chooses the session's window from those offered. */
static enum wire_window window_of(const struct host_window *w, const struct wire_hello *h)
{
	if (w && w->pass_fd && w->map && h->offers & WIRE_OFFER_DESCRIPTOR)
		return WIRE_WINDOW_DESCRIPTOR;
	if (w && w->key && h->offers & WIRE_OFFER_KEY && h->window_key == w->key)
		return WIRE_WINDOW_KEY;
	return WIRE_WINDOW_NONE;
}

/* Why there is no slot for a lane. */
static enum wire_why why_not(const struct host_window *w, const struct wire_hello *h,
			     enum wire_window window)
{
	if (!(h->offers & HELLO_WINDOWS))
		return WIRE_WHY_NOT_OFFERED;
	if (window != WIRE_WINDOW_NONE && w->size && h->lane)
		return WIRE_WHY_THREADS;
	return w && w->why ? w->why : WIRE_WHY_NONE;
}

static const char *carrier_name(const struct wire_hello *h, bool window)
{
	if (h->offers & WIRE_HELLO_VSOCK)
		return window ? "vsock+window" : "vsock";
	return window ? "unix+window" : "unix";
}

/* Prepares the slot and the welcome's and the lane's half of it. */
static int use_slot(struct host_window *w, struct wire_welcome *welcome,
		    struct lane_init *in)
{
	const struct slots s = slots_of(w);
	uint64_t size = s.large, at;
	unsigned slot;
	int r;

	r = slot_take(w, s.n, &slot);
	if (r < 0)
		return r;
	at = SLICE_HEAD + MIN(slot, s.n_large) * s.large;
	if (slot >= s.n_large) {
		at += (slot - s.n_large) * s.small;
		size = s.small;
	}
	in->ring = (struct ring_lane *)((char *)w->map + at);
	in->ring_size = size;
	in->on_free = slot_give_back;
	in->owner = w;
	in->slot = slot;
	memset(in->ring, 0, sizeof(*in->ring));
	welcome->carrier = WIRE_CARRIER_WINDOW;
	welcome->lane_offset = w->offset + at;
	welcome->lane_size = size;
	welcome->proof = (uint16_t)(clock_now_ns() >> 4) | 1;
	in->ring->proof.session = welcome->session;
	in->ring->proof.proof = welcome->proof;
	return 0;
}

/* Fills in the welcome, as far as it is about the window; takes a slot if there is one.
 */
static void choose(struct host_window *w, const struct wire_hello *h,
		   struct wire_welcome *welcome, struct lane_init *in)
{
	welcome->window = window_of(w, h);
	if (welcome->window != WIRE_WINDOW_NONE) {
		welcome->window_size = w->offset + w->size;
		welcome->status_offset = w->map ? w->offset : 0;
		if (use_slot(w, welcome, in) == 0)
			return;
	}
	welcome->why = why_not(w, h, welcome->window);
}

int host_lane_new(int sock, const struct host_lane_opts *opts, struct lane **ret_lane)
{
	const struct wire_hello *h = opts->hello;
	struct host_window *w = opts->window;
	struct wire_welcome welcome = {
		.magic = WIRE_MAGIC,
		.version = MIN(h->version, (uint16_t)WIRE_VERSION),
		.carrier = WIRE_CARRIER_STREAM,
		.session = opts->base->session,
		.band_base = opts->base->band_base,
		.band_size = opts->base->band_size,
	};
	struct lane_init in = {.sock = sock, .spin_us = opts->spin_us};
	struct lane *l;
	int r;

	memcpy(welcome.token, opts->base->token, sizeof(welcome.token));
	if (opts->index < WIRE_SESSIONS_MAX)
		choose(w, h, &welcome, &in);
	if (!in.ring &&
	    (opts->index >= WIRE_SESSIONS_MAX || !(h->offers & WIRE_OFFER_STREAM))) {
		(void)host_refuse(sock, -ENOSPC);
		return -ENOSPC;
	}
	if (in.ring && h->offers & WIRE_HELLO_VSOCK)
		in.spin_us *= LANE_VSOCK_FACTOR;
	in.carrier_name = carrier_name(h, in.ring);
	r = lane_new(&in, &l);
	if (r < 0) {
		if (in.ring)
			slot_give_back(w, in.slot);
		(void)host_refuse(sock, r);
		return r;
	}
	/* A session's later lanes lie in the window that its first one brought. */
	r = fd_send(sock, &welcome, sizeof(welcome), w ? &w->fd : NULL,
		    welcome.window == WIRE_WINDOW_DESCRIPTOR && !h->lane ? 1 : 0);
	if (r < 0) {
		lane_disown(l);
		return -EPIPE;
	}
	log_debug("lane %u of session %llu: %s", opts->index,
		  (unsigned long long)welcome.session, in.carrier_name);
	*ret_lane = l;
	return 0;
}

const char *host_lane_carrier(const struct lane *l)
{
	return l->carrier_name;
}
