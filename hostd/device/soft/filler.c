/* SPDX-License-Identifier: Apache-2.0 */
/* A process that wants the device and does nothing with it: its turns pass. */
#include <time.h>

#include "device/soft/soft.h"

/* How long it sleeps between two looks while it has the device. */
#define NAP_NS (200 * NSEC_PER_USEC)

static void *fill(void *arg)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	struct device *dev = arg;
	struct soft_turn *t = &dev->exec.turn;

	pthread_mutex_lock(&dev->lock);
	while (dev->fills) {
		struct soft_turn_word word = soft_turn_word(t);
		bool mine = soft_turn_take(t, clock_now_ns());

		pthread_mutex_unlock(&dev->lock);
		if (mine)
			nanosleep(&nap, NULL);
		else
			soft_turn_wait(word);
		pthread_mutex_lock(&dev->lock);
	}
	soft_turn_leave(t, clock_now_ns());
	pthread_mutex_unlock(&dev->lock);
	return NULL;
}

static void set(struct device *dev, bool on)
{
	scoped_lock(&dev->lock);
	dev->fills = on;
}

bool soft_filler(struct dev_ctx *ctx, bool on)
{
	struct device *dev = ctx->dev;
	bool was = dev->fills;

	if (on == was)
		return true;
	set(dev, on);
	if (!on)
		return pthread_join(dev->filler, NULL) == 0;
	if (pthread_create(&dev->filler, NULL, fill, dev) == 0)
		return true;
	set(dev, false);
	return false;
}
