/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: openat ioctl mmap munmap close getpid */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "device/cuda/rm/switches.h"

/* Names and numbers as in NVIDIA's open kernel modules, release 580. */
#define NV01_MEMORY_SYSTEM                          0x3eu
#define NV_EVENT_BUFFER                             0x90cdu

#define NV2080_CTRL_CMD_TIMER_GET_TIME              0x20800403u
#define NV2080_CTRL_CMD_GR_FECS_BIND_EVTBUF_FOR_UID 0x20801238u /* _V2 */
#define NV_EVENT_BUFFER_CTRL_CMD_ENABLE_EVENTS      0x90cd0101u
#define NV_EVENT_BUFFER_CTRL_CMD_FLUSH              0x90cd0104u
#define KEEP_NEWEST                                 2u

#define NV_ESC_RM_MAP_MEMORY                        0x4e

/* Handles of ours among the library's, which counts its own from 0x5c000000 on. */
enum handle {
	OF_HEADER = 0xcafe5700u,
	OF_RECORDS,
	OF_BUFFER
};

/* NVOS64_PARAMETERS */
struct rm_alloc_rights {
	struct rm_alloc a;
	uint64_t rights;
	uint32_t size, flags, status, pad;
};
static_assert(sizeof(struct rm_alloc_rights) == RM_ALLOC_WITH_RIGHTS,
	      "as the kernel has it");

/* NV_MEMORY_ALLOCATION_PARAMS */
struct memory_params {
	uint32_t owner, type, flags, shape[3], attr, attr2, format[3], pad;
	uint64_t range[2], size, alignment, offset, limit, address;
	uint32_t more[5], more_pad;
};
static_assert(offsetof(struct memory_params, size) == 64 &&
		      sizeof(struct memory_params) == 128,
	      "as the kernel has it");

/* NVOS32_ATTR: LOCATION_PCI, PHYSICALITY_NONCONTIGUOUS, COHERENCY_CACHED; NVOS32_ATTR2:
 * PROTECTION_USER_READ_ONLY, which such a buffer has to have. */
#define IN_HOST_MEMORY (1u << 25 | 1u << 27 | 1u << 29)
#define READ_ONLY      (1u << 22)

/* nv_ioctl_nvos33_parameters_with_fd */
struct rm_map {
	uint32_t client, device, memory, pad;
	uint64_t offset, length, address;
	uint32_t status, flags;
	int fd, fd_pad;
};
static_assert(sizeof(struct rm_map) == 56, "as the kernel has it");
#define NVOS33_FLAGS_ACCESS_READ_ONLY 1u

/* NV_EVENT_BUFFER_ALLOC_PARAMETERS */
struct buffer_params {
	uint64_t addresses[2];
	uint32_t record_size, n_records;
	uint64_t variable;
	uint32_t variable_size, free_threshold;
	uint64_t notify;
	uint32_t variable_threshold, subdevice, flags, header, records, variable_handle;
};
static_assert(sizeof(struct buffer_params) == 72, "as the kernel has it");

/* NV2080_CTRL_GR_FECS_BIND_EVTBUF_FOR_UID_V2_PARAMS */
struct bind_params {
	uint32_t buffer, record_size, detail, filter, all_users, reason;
};

/* NV_EVENT_BUFFER_CTRL_CMD_ENABLE_EVENTS_PARAMS */
struct enable_params {
	uint32_t on, flags;
};

/* NV_EVENT_BUFFER_HEADER */
struct header {
	uint32_t get, put;
	uint64_t count, dropped, dropped_variable;
};

/* NV_EVENT_BUFFER_RECORD of a switch, NV_EVENT_BUFFER_FECS_RECORD_V2. */
struct record {
	uint16_t type, subtype;
	uint32_t variable;
	uint8_t tag, vm;
	uint16_t number;
	uint32_t context, pid;
	uint16_t reserved;
	uint8_t instance, compute_instance;
	uint64_t ns;
};
static_assert(sizeof(struct record) == 32, "as the kernel has it");

/* NV_EVENT_BUFFER_FECS_CTXSWTAG_SIMPLE_ */
#define TAG_START 6u
#define TAG_END   7u

/* A shortest slice takes 30 us, and it is looked 20 times a second at least: 1,700 each time. */
#define RECORDS 8192u

/* Part of each time on the engine in which the state of contexts comes and goes: 88 to
 * 96 us where kernels that fill the GPU are preempted, 55 where they have ended (H200, driver
 * 580). */
#define STATE_NS (90 * NSEC_PER_USEC)

const char *cuda_rm_file = "/dev/nvidiactl";

/* A device, of a client of the kernel's, and what requests about it go to. */
struct device_of {
	int fd;
	uint32_t client, device, subdevice;
};

/* The library's: it asks for all devices first, and then for groups of those that it uses. */
#define DEVICES_MAX 64u
static struct {
	pthread_mutex_t lock;
	struct device_of devices[DEVICES_MAX];
	unsigned n;
	struct device_of now; /* the newest group's */
	unsigned made;        /* groups there were */
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct {
	struct device_of at;
	unsigned made; /* seen.made when it was opened, or could not be */
	const volatile struct header *header; /* NULL: it is not open */
	const struct record *records;
	uint32_t get;
	bool known;
	uint64_t since_ns, had_ns; /* since_ns, of the GPU: on the engine; 0: it is not */
} of;

void cuda_switches_saw_device(int fd, const struct rm_alloc *a)
{
	pthread_mutex_lock(&seen.lock);
	seen.devices[seen.n++ % DEVICES_MAX] =
		(struct device_of){fd, a->root, a->parent, a->object};
	pthread_mutex_unlock(&seen.lock);
}

void cuda_switches_saw_group(const struct rm_alloc *a)
{
	const struct device_of *d;

	pthread_mutex_lock(&seen.lock);
	for (unsigned i = 0; i < MIN(seen.n, DEVICES_MAX); i++) {
		d = &seen.devices[i];
		if (d->client == a->root && d->device == a->parent)
			seen.now = *d;
	}
	seen.made++;
	pthread_mutex_unlock(&seen.lock);
}

/* ---- requests ---- */

static bool make(uint32_t parent, uint32_t object, uint32_t class, void *params,
		 uint32_t size)
{
	struct rm_alloc_rights r = {
		.a = {of.at.client, parent, object, class, (uintptr_t)params},
		.size = size};

	return cuda_rm_kernel(
		       of.at.fd,
		       _IOWR(NV_IOCTL_MAGIC, NV_ESC_RM_ALLOC, struct rm_alloc_rights),
		       &r) == 0 &&
	       r.status == 0;
}

static bool control(uint32_t object, uint32_t cmd, void *params, uint32_t size)
{
	struct rm_control c = {.client = of.at.client,
			       .object = object,
			       .cmd = cmd,
			       .params = (uintptr_t)params,
			       .size = size};

	return cuda_rm_kernel(of.at.fd,
			      _IOWR(NV_IOCTL_MAGIC, NV_ESC_RM_CONTROL, struct rm_control),
			      &c) == 0 &&
	       c.status == 0;
}

/* Host memory that the kernel writes to and this process reads. NULL: there is none. */
static const void *shared(uint32_t object, size_t size)
{
	struct memory_params p = {.owner = of.at.client,
				  .attr = IN_HOST_MEMORY,
				  .attr2 = READ_ONLY,
				  .size = size,
				  .alignment = 4096};
	struct rm_map m = {.client = of.at.client,
			   .device = of.at.device,
			   .memory = object,
			   .length = size,
			   .flags = NVOS33_FLAGS_ACCESS_READ_ONLY,
			   .fd = -1};
	void *at = MAP_FAILED;

	if (!make(of.at.device, object, NV01_MEMORY_SYSTEM, &p, sizeof(p)))
		return NULL;
	m.fd = open(cuda_rm_file, O_RDWR | O_CLOEXEC);
	if (m.fd < 0)
		return NULL;
	if (cuda_rm_kernel(of.at.fd,
			   _IOWR(NV_IOCTL_MAGIC, NV_ESC_RM_MAP_MEMORY, struct rm_map),
			   &m) == 0 &&
	    m.status == 0)
		at = mmap(NULL, size, PROT_READ, MAP_SHARED, m.fd, 0);
	close(m.fd);
	return at == MAP_FAILED ? NULL : at;
}

/* ---- the buffer ---- */

static void shut(void)
{
	if (of.header)
		munmap((void *)of.header, sizeof(*of.header));
	if (of.records)
		munmap((void *)of.records, RECORDS * sizeof(*of.records));
	of.header = NULL;
	of.records = NULL;
	of.known = false;
	of.since_ns = 0;
}

/* Returns what could not be had, or NULL. */
static const char *begin(void)
{
	struct buffer_params b = {.record_size = sizeof(struct record),
				  .n_records = RECORDS,
				  .subdevice = of.at.subdevice,
				  .header = OF_HEADER,
				  .records = OF_RECORDS};
	struct bind_params bind = {.buffer = OF_BUFFER,
				   .record_size = sizeof(struct record)};
	struct enable_params on = {1, KEEP_NEWEST};

	if (!of.at.subdevice)
		return "device";
	of.header = shared(OF_HEADER, sizeof(*of.header));
	of.records = shared(OF_RECORDS, RECORDS * sizeof(*of.records));
	if (!of.header || !of.records)
		return "memory";
	if (!make(of.at.client, OF_BUFFER, NV_EVENT_BUFFER, &b, sizeof(b)))
		return "buffer";
	if (!control(of.at.subdevice, NV2080_CTRL_CMD_GR_FECS_BIND_EVTBUF_FOR_UID, &bind,
		     sizeof(bind)))
		return "binding";
	return control(OF_BUFFER, NV_EVENT_BUFFER_CTRL_CMD_ENABLE_EVENTS, &on, sizeof(on))
		       ? NULL
		       : "events";
}

/* Opens the buffer of the newest group's device, if that was not tried. */
static bool is_open(void)
{
	const char *none;
	bool anew;

	pthread_mutex_lock(&seen.lock);
	anew = !of.header && of.made != seen.made;
	if (anew) {
		of.at = seen.now;
		of.made = seen.made;
	}
	pthread_mutex_unlock(&seen.lock);
	none = anew ? begin() : NULL;
	if (none) {
		log_info("cuda: the kernel does not tell of context switches (no %s); "
			 "time is counted by who has work",
			 none);
		shut();
	}
	of.get = anew && of.header ? MIN(of.header->put, RECORDS - 1) : of.get;
	return of.header != NULL;
}

/* ---- records ---- */

static uint64_t computed(uint64_t since_ns, uint64_t until_ns)
{
	uint64_t ns = until_ns - MIN(since_ns, until_ns);

	return ns - MIN(ns, STATE_NS);
}

/* Records of other processes of the same user are left alone. */
static void add(const struct record *r, uint32_t pid)
{
	if (r->pid != pid)
		return;
	of.known = true;
	if (r->tag == TAG_START) {
		of.since_ns = r->ns;
	} else if (r->tag == TAG_END) {
		if (of.since_ns)
			of.had_ns += computed(of.since_ns, r->ns);
		of.since_ns = 0;
	}
}

static bool take_records(void)
{
	uint32_t put = of.header->put, pid = (uint32_t)getpid();

	if (put >= RECORDS)
		return false;
	atomic_thread_fence(memory_order_acquire);
	for (; of.get != put; of.get = (of.get + 1) % RECORDS) {
		const struct record r = of.records[of.get];

		add(&r, pid);
	}
	return true;
}

bool cuda_switches_had(uint64_t *ret_ns)
{
	uint64_t now;

	if (!is_open())
		return false;
	/* In this order: one that goes meanwhile has gone after that time. */
	if (!control(of.at.subdevice, NV2080_CTRL_CMD_TIMER_GET_TIME, &now,
		     sizeof(now)) ||
	    !control(OF_BUFFER, NV_EVENT_BUFFER_CTRL_CMD_FLUSH, NULL, 0) ||
	    !take_records()) {
		shut();
		return false;
	}
	*ret_ns = of.had_ns + (of.since_ns ? computed(of.since_ns, now) : 0);
	return of.known;
}
