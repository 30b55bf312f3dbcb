/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a lane, which is sticky: `error` goes from 0 to a negative errno once.
 * Whoever sets it shuts the socket down, which wakes this side's thread and tells the
 * peer.
 */
#include <errno.h>
#include <sys/socket.h>

#include "carrier.h"

int lane_fail(struct lane *l, int error)
{
	int alive = 0;

	if (!atomic_compare_exchange_strong_explicit(
		    &l->error, &alive, error, memory_order_relaxed, memory_order_relaxed))
		return alive;
	if (l->w.self)
		window_say_closed(l);
	shutdown(l->sock, SHUT_RDWR);
	return error;
}

bool lane_dead(const struct lane *l)
{
	return lane_error(l) != 0;
}

void lane_kill(struct lane *l)
{
	int saved = errno;

	lane_fail(l, -EPIPE);
	errno = saved;
}
