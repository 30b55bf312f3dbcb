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
	bool off;
};

static struct {
	pthread_mutex_t lock;
	struct object devices[DEVICES_MAX], groups[GROUPS_MAX], channels[CHANNELS_MAX];
	unsigned n_devices, n_groups, n_channels;
	bool too_many; /* for good: not all are known */
} freezer = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct object object_of(int fd, const struct rm_alloc *a)
{
	return (struct object){fd, a->root, a->object, a->parent, false};
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

static void freed_locked(uint32_t client, uint32_t object)
{
	freezer.n_channels =
		without(freezer.channels, freezer.n_channels, client, object);
}

void cuda_freezer_freed(uint32_t client, uint32_t object)
{
	pthread_mutex_lock(&freezer.lock);
	for (unsigned i = 0; i < freezer.n_groups; i++) {
		if (freezer.groups[i].client == client &&
		    freezer.groups[i].parent == object)
			freed_locked(client, freezer.groups[i].handle);
	}
	freed_locked(client, object);
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

static bool tell(const struct object *first, struct disable_params *p)
{
	struct rm_control c = {.client = first->client,
			       .object = device_of(first->client),
			       .cmd = NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS,
			       .params = (uintptr_t)p,
			       .size = sizeof(*p)};

	if (c.object &&
	    cuda_rm_kernel(first->fd,
			   _IOWR(NV_IOCTL_MAGIC, NV_ESC_RM_CONTROL, struct rm_control),
			   &c) == 0 &&
	    c.status == 0)
		return true;
	log_debug("cuda: channels of client %#x, device %#x: %#x", c.client, c.object,
		  c.status);
	return false;
}

/* Channels from first on that are not so yet, as many of one client as one call takes. Returns the
 * first that was not looked at, 0 if the kernel does not let them. */
static unsigned set_some_locked(unsigned first, bool off)
{
	struct object *channels = freezer.channels;
	struct disable_params p = {.disable = off};
	unsigned end = first;

	for (; end < freezer.n_channels && p.n < ENTRIES_MAX &&
	       channels[end].client == channels[first].client;
	     end++) {
		if (channels[end].off == off)
			continue;
		p.clients[p.n] = channels[end].client;
		p.channels[p.n++] = channels[end].handle;
	}
	if (p.n && !tell(&channels[first], &p))
		return 0;
	while (first < end)
		channels[first++].off = off;
	return end;
}

static bool set_all_locked(bool off)
{
	for (unsigned i = 0; i < freezer.n_channels;) {
		i = set_some_locked(i, off);
		if (!i)
			return false;
	}
	return true;
}

bool cuda_freezer_freeze(void)
{
	bool frozen;

	pthread_mutex_lock(&freezer.lock);
	frozen = freezer.n_channels && !freezer.too_many && set_all_locked(true);
	if (!frozen)
		set_all_locked(false);
	pthread_mutex_unlock(&freezer.lock);
	return frozen;
}

void cuda_freezer_thaw(void)
{
	pthread_mutex_lock(&freezer.lock);
	if (!set_all_locked(false))
		log_error("cuda: frozen kernels do not go on");
	pthread_mutex_unlock(&freezer.lock);
}
