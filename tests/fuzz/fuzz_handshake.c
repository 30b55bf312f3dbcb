/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first bytes on a socket. Input: one byte that chooses the side, and which window
 * the worker has, then what the peer says. The worker's side is run as weftd and a worker
 * run it, up to the first command.
 */
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "hello.h"
#include "host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define KEY 0x1234u

/* None, one to pass on, a slice of a VM's, a VM's that is full. */
static struct host_window windows[] = {
	{.fd = -1},
	{.pass_fd = true, .size = 4 << 20},
	{.key = KEY, .offset = 4096, .size = 4 << 20},
	{.key = KEY, .offset = 4096, .why = WIRE_WHY_FULL},
};

static void open_windows(void)
{
	static bool open;

	for (unsigned i = 1; !open && i < ARRAY_SIZE(windows); i++) {
		windows[i].fd = fd_memfd("fuzz", 8 << 20);
		if (windows[i].fd < 0 || host_window_map(&windows[i]) < 0)
			__builtin_trap();
	}
	open = true;
}

/* Ours must please ourselves, and promise what the guest can have alone. */
static void check_ours(int sock, const struct wire_hello *h)
{
	struct wire_welcome w;

	if (read(sock, &w, sizeof(w)) != sizeof(w) || welcome_check(&w, h->offers) < 0)
		__builtin_trap();
	if (w.window == WIRE_WINDOW_KEY && h->window_key != KEY)
		__builtin_trap();
	if (w.carrier == WIRE_CARRIER_STREAM && h->offers & HELLO_WINDOWS && !w.why)
		__builtin_trap();
}

static void greet(const uint8_t *data, size_t size, struct host_window *window)
{
	struct wire_welcome base = {.token = {1}};
	struct wire_hello hello;
	struct host_lane_opts o = {.hello = &hello, .base = &base, .window = window};
	struct lane_msg m;
	struct lane *l;
	int s[2];

	open_windows();
	if (size > 65536 || socketpair(AF_UNIX, SOCK_STREAM, 0, s) < 0)
		return;
	if (write(s[0], data, size) != (ssize_t)size)
		__builtin_trap();
	shutdown(s[0], SHUT_WR);
	if (host_hello(s[1], 0, &hello) < 0 || host_lane_new(s[1], &o, &l) < 0) {
		close(s[1]);
	} else {
		check_ours(s[0], &hello);
		while (lane_recv(l, &m) == 0)
			;
		lane_free(l);
	}
	close(s[0]);
}

/* The guest must not go beyond its mapping, nor take what it did not ask for. */
static void welcome(const struct wire_welcome *w, uint32_t offers)
{
	if (welcome_check(w, offers) < 0)
		return;
	if (w->carrier == WIRE_CARRIER_WINDOW &&
	    (w->window == WIRE_WINDOW_NONE || w->lane_size > w->window_size ||
	     w->lane_offset > w->window_size - w->lane_size))
		__builtin_trap();
	if (w->window != WIRE_WINDOW_NONE &&
	    w->status_offset > w->window_size - sizeof(struct wire_status))
		__builtin_trap();
	if ((w->window == WIRE_WINDOW_KEY && !(offers & WIRE_OFFER_KEY)) ||
	    (w->window == WIRE_WINDOW_DESCRIPTOR && !(offers & WIRE_OFFER_DESCRIPTOR)))
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_welcome w;

	if (!size)
		return 0;
	if (data[0] % 2 == 0) {
		greet(data + 1, size - 1, &windows[data[0] / 2 % ARRAY_SIZE(windows)]);
		return 0;
	}
	if (size - 1 < sizeof(w))
		return 0;
	memcpy(&w, data + 1, sizeof(w));
	welcome(&w, data[0] >> 1 & HELLO_OFFERS);
	return 0;
}
