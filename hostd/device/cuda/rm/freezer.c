/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "base/log.h"
#include "base/macros.h"
#include "device/cuda/rm/freezer.h"

#define NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS 0x2080110bu
/* NV2080_CTRL_FIFO_DISABLE_CHANNELS_MAX_ENTRIES */
#define ENTRIES_MAX 64u
/* A context has eight of them on Hopper, and a process few contexts. */
#define CHANNELS_MAX 256u
#define GROUPS_MAX   32u
/* NVML in the same process has devices of its own. */
#define DEVICES_MAX 16u

/* NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS */
struct disable_params {
	uint8_t disable, pad[3];
	uint32_t n;
	uint8_t only_scheduling, rewind, pad2[6];
	uint64_t event;
	uint32_t clients[ENTRIES_MAX], channels[ENTRIES_MAX];
};
static_assert(sizeof(struct disable_params) == 536, "as the resource manager has it");

struct object {
	int fd; /* the driver knows a client by the file in which it was made */
	uint32_t client, handle, parent;
};

static struct {
	pthread_mutex_t lock;
	struct object devices[DEVICES_MAX], groups[GROUPS_MAX], channels[CHANNELS_MAX];
	unsigned n_devices, n_groups, n_channels;
	bool too_many; /* for good: not all are known */
	bool frozen;
} freezer = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct object object_of(int fd, const struct rm_alloc *a)
{
	return (struct object){fd, a->root, a->object, a->parent};
}

static bool is_group(const struct object *channel)
{
	for (unsigned i = 0; i < freezer.n_groups; i++) {
		if (freezer.groups[i].client == channel->client &&
		    freezer.groups[i].handle == channel->parent)
			return true;
	}
	return false;
}

void cuda_freezer_saw_device(int fd, const struct rm_alloc *subdevice)
{
	pthread_mutex_lock(&freezer.lock);
	if (freezer.n_devices < DEVICES_MAX)
		freezer.devices[freezer.n_devices++] = object_of(fd, subdevice);
	pthread_mutex_unlock(&freezer.lock);
}

void cuda_freezer_saw_group(int fd, const struct rm_alloc *group)
{
	pthread_mutex_lock(&freezer.lock);
	if (freezer.n_groups < GROUPS_MAX)
		freezer.groups[freezer.n_groups++] = object_of(fd, group);
	else
		freezer.too_many = true;
	pthread_mutex_unlock(&freezer.lock);
}

void cuda_freezer_saw_channel(int fd, const struct rm_alloc *channel)
{
	struct object o = object_of(fd, channel);

	pthread_mutex_lock(&freezer.lock);
	if (is_group(&o) && freezer.n_channels < CHANNELS_MAX)
		freezer.channels[freezer.n_channels++] = o;
	else if (is_group(&o))
		freezer.too_many = true;
	pthread_mutex_unlock(&freezer.lock);
}

/* Forgets those that are gone with an object: itself, what is in it, and all of a client. */
static unsigned without(struct object *o, unsigned n, uint32_t client, uint32_t gone)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < n; i++) {
		bool is = o[i].client == client &&
			  (o[i].handle == gone || o[i].parent == gone || client == gone);

		if (!is)
			o[kept++] = o[i];
	}
	return kept;
}

void cuda_freezer_freed(uint32_t client, uint32_t object)
{
	pthread_mutex_lock(&freezer.lock);
	freezer.n_channels =
		without(freezer.channels, freezer.n_channels, client, object);
	freezer.n_groups = without(freezer.groups, freezer.n_groups, client, object);
	freezer.n_devices = without(freezer.devices, freezer.n_devices, client, object);
	pthread_mutex_unlock(&freezer.lock);
}

static uint32_t device_of(uint32_t client)
{
	uint32_t device = 0;

	for (unsigned i = 0; i < freezer.n_devices; i++) {
		if (freezer.devices[i].client == client)
			device = freezer.devices[i].handle;
	}
	return device;
}

/* Channels from first on, as many of one client as one call takes. Returns how many, 0 if the
 * kernel does not let them. */
static unsigned set_some_locked(unsigned first, bool off)
{
	struct disable_params p = {.disable = off};
	struct rm_control c = {.client = freezer.channels[first].client,
			       .object = device_of(freezer.channels[first].client),
			       .cmd = NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS,
			       .params = (uintptr_t)&p,
			       .size = sizeof(p)};

	for (unsigned i = first; i < freezer.n_channels && p.n < ENTRIES_MAX;
	     i++, p.n++) {
		if (freezer.channels[i].client != c.client)
			break;
		p.clients[p.n] = c.client;
		p.channels[p.n] = freezer.channels[i].handle;
	}
	if (!c.object ||
	    cuda_rm_kernel(freezer.channels[first].fd,
			   _IOWR(NV_IOCTL_MAGIC, NV_ESC_RM_CONTROL, struct rm_control),
			   &c) ||
	    c.status) {
		log_debug("cuda: channels of client %#x, device %#x: %#x", c.client,
			  c.object, c.status);
		return 0;
	}
	return p.n;
}

static bool set_all_locked(bool off)
{
	unsigned n = 1;

	for (unsigned i = 0; i < freezer.n_channels && n; i += n)
		n = set_some_locked(i, off);
	return n;
}

bool cuda_freezer_freeze(void)
{
	bool can;

	pthread_mutex_lock(&freezer.lock);
	can = freezer.n_channels && !freezer.too_many;
	freezer.frozen = can && set_all_locked(true);
	if (can && !freezer.frozen) {
		log_debug("cuda: kernels cannot be frozen");
		set_all_locked(false);
	}
	can = freezer.frozen;
	pthread_mutex_unlock(&freezer.lock);
	return can;
}

void cuda_freezer_thaw(void)
{
	pthread_mutex_lock(&freezer.lock);
	if (freezer.frozen && !set_all_locked(false))
		log_error("cuda: frozen kernels do not go on");
	freezer.frozen = false;
	pthread_mutex_unlock(&freezer.lock);
}
