// SPDX-License-Identifier: Apache-2.0
/*
 * The first bytes on a socket. Input: one byte that chooses the side, then what the peer
 * says. The worker's side is run as weftd and a worker run it, up to the first command.
 */
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "hello.h"
#include "host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void greet(const uint8_t *data, size_t size)
{
	static struct host_window window = {.pass_fd = true, .size = 4 << 20, .fd = -1};
	struct wire_welcome base = {.token = {1}}, welcome;
	struct wire_hello hello;
	struct host_lane_opts o = {.hello = &hello, .base = &base, .window = &window};
	struct lane_msg m;
	struct lane *l;
	int s[2];

	if (window.fd < 0) {
		window.fd = fd_memfd("fuzz", window.size);
		if (window.fd < 0 || host_window_map(&window) < 0)
			__builtin_trap();
	}
	if (size > 65536 || socketpair(AF_UNIX, SOCK_STREAM, 0, s) < 0)
		return;
	if (write(s[0], data, size) != (ssize_t)size)
		__builtin_trap();
	shutdown(s[0], SHUT_WR);
	if (host_hello(s[1], 0, &hello) < 0 || host_lane_new(s[1], &o, &l) < 0) {
		close(s[1]);
	} else {
		if (read(s[0], &welcome, sizeof(welcome)) != sizeof(welcome) ||
		    welcome_check(&welcome, hello.carriers) < 0)
			__builtin_trap(); /* ours must please ourselves */
		while (lane_recv(l, &m) == 0)
			;
		lane_free(l);
	}
	close(s[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_welcome w;

	if (!size)
		return 0;
	if (data[0] % 2 == 0) {
		greet(data + 1, size - 1);
		return 0;
	}
	if (size - 1 < sizeof(w))
		return 0;
	memcpy(&w, data + 1, sizeof(w));
	if (welcome_check(&w, HELLO_CARRIERS) == 0 && w.carrier == WIRE_CARRIER_WINDOW &&
	    (w.lane_offset + w.lane_size > w.window_size || w.lane_size > w.window_size))
		__builtin_trap(); /* the guest would go beyond its mapping */
	return 0;
}
