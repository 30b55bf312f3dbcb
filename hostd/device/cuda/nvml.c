/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sensors, utilisation and the driver's version, from the host's libnvidia-ml.so.1, which
 * comes with the driver. It is declared here as far as it is used, so that building needs
 * no header of it. Everything is optional: without the library a device has no sensors,
 * and each function that it lacks is one sensor less.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "device/cuda/nvml.h"

#define NVML_LIBRARY "libnvidia-ml.so.1"
/* Room for so many processes on the GPU at first; a GPU that has more grows it, to the
 * most numbers of processes that a kernel gives unless it is told otherwise. */
#define PROCESSES_FIRST        256u
#define PROCESSES_MAX          32768u
#define NVML_INSUFFICIENT_SIZE 7
/* The driver samples about once a second. */
#define SAMPLE_NS (9 * NSEC_PER_SEC / 10)
/* Without a newer sample a process is taken to rest after this long. */
#define SAMPLE_HOLDS_NS (2 * NSEC_PER_SEC)

struct handle; /* nvmlDevice_t */

/* One process's share of the time since a moment. */
struct sample {
	unsigned pid;
	unsigned long long at_us;
	unsigned sm, memory, encoder, decoder; /* per cent */
};

/* nvmlProcessInfo_t: a process and what it holds of the GPU's memory. */
struct holder {
	unsigned pid;
	unsigned long long bytes; /* all ones: not known */
	unsigned instance, compute_instance;
};

typedef int value_fn(struct handle *h, unsigned *ret);
typedef int kind_fn(struct handle *h, unsigned kind, unsigned *ret);

struct cuda_nvml {
	void *lib;
	struct handle *handle;
	pthread_mutex_t lock; /* all below */
	uint32_t value[SENSOR_NUM];
	uint64_t value_at_ns;
	int (*processes)(struct handle *h, struct sample *ret, unsigned *count,
			 unsigned long long since_us);
	unsigned percent, memory_percent; /* of the latest sample */
	uint64_t asked_at_ns, percent_at_ns, busy_ns, memory_ns, busy_at_ns;
	unsigned long long sample_us; /* the driver's time of that sample */
	struct sample *samples;
	struct holder *holders;
	unsigned n_samples, n_holders; /* room */
};

/* A sensor, and the function that reads it. */
static const struct {
	enum sensor sensor;
	const char *name;
} plain[] = {
	{SENSOR_POWER, "nvmlDeviceGetPowerUsage"},
	{SENSOR_POWER_ENFORCED, "nvmlDeviceGetEnforcedPowerLimit"},
	{SENSOR_POWER_LIMIT, "nvmlDeviceGetPowerManagementLimit"},
	{SENSOR_POWER_DEFAULT, "nvmlDeviceGetPowerManagementDefaultLimit"},
	{SENSOR_FAN, "nvmlDeviceGetFanSpeed"},
	{SENSOR_BRAND, "nvmlDeviceGetBrand"},
	{SENSOR_PERFORMANCE_STATE, "nvmlDeviceGetPerformanceState"},
	{SENSOR_PCIE_GENERATION, "nvmlDeviceGetCurrPcieLinkGeneration"},
	{SENSOR_PCIE_WIDTH, "nvmlDeviceGetCurrPcieLinkWidth"},
	{SENSOR_PCIE_MAX_GENERATION, "nvmlDeviceGetMaxPcieLinkGeneration"},
	{SENSOR_PCIE_MAX_WIDTH, "nvmlDeviceGetMaxPcieLinkWidth"},
};

/* Sensors whose NVML function takes one argument more: which of several it is to read. */
static const struct {
	enum sensor sensor;
	const char *name;
	unsigned kind;
} of_kind[] = {
	{SENSOR_TEMPERATURE, "nvmlDeviceGetTemperature", 0},
	{SENSOR_TEMPERATURE_SHUTDOWN, "nvmlDeviceGetTemperatureThreshold", 0},
	{SENSOR_TEMPERATURE_SLOWDOWN, "nvmlDeviceGetTemperatureThreshold", 1},
	{SENSOR_TEMPERATURE_MEMORY_MAX, "nvmlDeviceGetTemperatureThreshold", 2},
	{SENSOR_TEMPERATURE_MAX, "nvmlDeviceGetTemperatureThreshold", 3},
	{SENSOR_CLOCK_GRAPHICS, "nvmlDeviceGetClockInfo", 0},
	{SENSOR_CLOCK_SM, "nvmlDeviceGetClockInfo", 1},
	{SENSOR_CLOCK_MEMORY, "nvmlDeviceGetClockInfo", 2},
	{SENSOR_CLOCK_VIDEO, "nvmlDeviceGetClockInfo", 3},
	{SENSOR_MAX_CLOCK_GRAPHICS, "nvmlDeviceGetMaxClockInfo", 0},
	{SENSOR_MAX_CLOCK_SM, "nvmlDeviceGetMaxClockInfo", 1},
	{SENSOR_MAX_CLOCK_MEMORY, "nvmlDeviceGetMaxClockInfo", 2},
	{SENSOR_MAX_CLOCK_VIDEO, "nvmlDeviceGetMaxClockInfo", 3},
};

/* ISO C has no cast from an object's address to a function's. */
static int look_up(void *lib, const char *name, void *ret_fn)
{
	void *p = dlsym(lib, name);

	if (!p)
		return -1;
	memcpy(ret_fn, &p, sizeof(p));
	return 0;
}

/* True if a function that was asked has answered; what it lacks is worth a line. */
static bool told(const struct cuda_nvml *n, const char *name, int result)
{
	if (result && !n->value_at_ns)
		log_debug("cuda: %s: NVML error %d", name, result);
	return result == 0;
}

typedef int wide_fn(struct handle *h, unsigned long long *ret);

/* Values of 64 bits; what does not fit is cut to the highest that does. */
static void read_wide(struct cuda_nvml *n, uint32_t *ret)
{
	static const struct {
		enum sensor sensor;
		const char *name;
	} wide[] = {
		{SENSOR_CLOCK_REASONS, "nvmlDeviceGetCurrentClocksThrottleReasons"},
		{SENSOR_CLOCK_REASONS_KNOWN,
		 "nvmlDeviceGetSupportedClocksThrottleReasons"},
	};
	static const char ecc[] = "nvmlDeviceGetTotalEccErrors";
	static const char energy[] = "nvmlDeviceGetTotalEnergyConsumption";
	int (*errors)(struct handle *, unsigned, unsigned, unsigned long long *);
	unsigned long long v;
	wide_fn *get;

	for (unsigned i = 0; i < ARRAY_SIZE(wide); i++) {
		if (look_up(n->lib, wide[i].name, &get) == 0 &&
		    told(n, wide[i].name, get(n->handle, &v)))
			ret[wide[i].sensor] = (uint32_t)MIN(v, SENSOR_NONE - 1ull);
	}
	if (look_up(n->lib, energy, &get) == 0 && told(n, energy, get(n->handle, &v))) {
		ret[SENSOR_ENERGY_LOW] = (uint32_t)v;
		ret[SENSOR_ENERGY_HIGH] = (uint32_t)(v >> 32);
	}
	for (unsigned i = 0; i < 4; i++) {
		if (look_up(n->lib, ecc, &errors) == 0 &&
		    told(n, ecc, errors(n->handle, i % 2, i / 2, &v)))
			ret[SENSOR_ECC_CORRECTED + i] =
				(uint32_t)MIN(v, SENSOR_NONE - 1ull);
	}
}

/* nvmlFieldValue_t. */
struct field {
	unsigned id, scope;
	long long timestamp, latency;
	unsigned type, result;
	union {
		unsigned v;
		unsigned long long wide;
	};
};

static void read_fields(struct cuda_nvml *n, uint32_t *ret)
{
	static const enum sensor sensors[] = {SENSOR_TEMPERATURE_MEMORY,
					      SENSOR_POWER_INSTANT};
	struct field f[] = {{.id = 82}, {.id = 186}};
	int (*get)(struct handle *, int, struct field *);

	if (look_up(n->lib, "nvmlDeviceGetFieldValues", &get) < 0 ||
	    get(n->handle, ARRAY_SIZE(f), f))
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(f); i++) {
		if (f[i].result == 0)
			ret[sensors[i]] = f[i].v;
	}
}

static void read_all(struct cuda_nvml *n, uint32_t *ret)
{
	int (*limits)(struct handle *, unsigned *, unsigned *);
	kind_fn *get_kind;
	value_fn *get;
	unsigned v, w;

	for (unsigned i = 0; i < ARRAY_SIZE(plain); i++) {
		if (look_up(n->lib, plain[i].name, &get) == 0 &&
		    told(n, plain[i].name, get(n->handle, &v)))
			ret[plain[i].sensor] = v;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(of_kind); i++) {
		if (look_up(n->lib, of_kind[i].name, &get_kind) == 0 &&
		    told(n, of_kind[i].name, get_kind(n->handle, of_kind[i].kind, &v)))
			ret[of_kind[i].sensor] = v;
	}
	if (look_up(n->lib, "nvmlDeviceGetPowerManagementLimitConstraints", &limits) ==
		    0 &&
	    limits(n->handle, &v, &w) == 0) {
		ret[SENSOR_POWER_MIN] = v;
		ret[SENSOR_POWER_MAX] = w;
	}
	read_wide(n, ret);
	read_fields(n, ret);
}

void cuda_sensors(struct device *dev, uint32_t ret_value[SENSOR_NUM])
{
	struct cuda_nvml *n = dev->nvml;
	uint64_t now = clock_now_ns();

	if (!n) {
		for (unsigned i = 0; i < SENSOR_NUM; i++)
			ret_value[i] = SENSOR_NONE;
		return;
	}
	scoped_lock(&n->lock);
	if (!n->value_at_ns || now - n->value_at_ns >= SENSORS_FRESH_NS) {
		for (unsigned i = 0; i < SENSOR_NUM; i++)
			n->value[i] = SENSOR_NONE;
		read_all(n, n->value);
		n->value_at_ns = now;
	}
	memcpy(ret_value, n->value, sizeof(n->value));
}

/* After NVML has given r for a list of *room: true if there is more room now, and so it
 * may be asked again. */
static bool more_room(int r, void *list, unsigned *room, size_t bytes)
{
	unsigned n = *room ? 2 * *room : PROCESSES_FIRST;
	void *p, **v = list;

	if (*room && (r != NVML_INSUFFICIENT_SIZE || n > PROCESSES_MAX))
		return false;
	p = reallocarray(*v, n, bytes);
	if (!p)
		return false;
	*v = p;
	*room = n;
	return true;
}

/* Takes this process's share from the samples since the last time; false: none. */
static bool sampled_locked(struct cuda_nvml *n, uint64_t now)
{
	unsigned count, me = (unsigned)getpid();
	const struct sample *s;
	int r;

	n->asked_at_ns = now;
	do {
		count = n->n_samples;
		r = count ? n->processes(n->handle, n->samples, &count, n->sample_us)
			  : NVML_INSUFFICIENT_SIZE;
	} while (r && more_room(r, &n->samples, &n->n_samples, sizeof(*n->samples)));
	if (r)
		return false;
	s = n->samples;
	n->percent = n->memory_percent = 0;
	for (unsigned i = 0; i < MIN(count, n->n_samples); i++) {
		n->sample_us = MAX(n->sample_us, s[i].at_us);
		if (s[i].pid != me)
			continue;
		n->percent = MIN(s[i].sm, 100u);
		n->memory_percent = MIN(s[i].memory, 100u);
	}
	return true;
}

/*
 * The driver samples, for each process, the share of time in which it ran something,
 * about once a second; a share holds until the next one comes. A driver that sees other
 * process numbers than this process does (a container's) knows nothing of us: then there
 * is no utilisation, rather than that of our neighbours.
 */
uint64_t cuda_busy_ns(struct device *dev, uint64_t *ret_memory_ns)
{
	struct cuda_nvml *n = dev->nvml;
	uint64_t now = clock_now_ns();

	*ret_memory_ns = 0;
	if (!n || !n->processes)
		return 0;
	scoped_lock(&n->lock);
	if (now - n->asked_at_ns >= SAMPLE_NS && sampled_locked(n, now))
		n->percent_at_ns = now;
	else if (now - n->percent_at_ns > SAMPLE_HOLDS_NS)
		n->percent = n->memory_percent = 0;
	n->busy_ns += (now - n->busy_at_ns) / 100 * n->percent;
	n->memory_ns += (now - n->busy_at_ns) / 100 * n->memory_percent;
	n->busy_at_ns = now;
	*ret_memory_ns = n->memory_ns;
	return n->busy_ns;
}

/* Bytes that this process has of the GPU; 0: nobody says. alone: the only process that
 * there is is this one, whatever its number. */
static uint64_t process_bytes(struct cuda_nvml *n, bool alone)
{
	int (*get)(struct handle *, unsigned *, struct holder *);
	const struct holder *h;
	unsigned count;
	int r;

	if (!n || look_up(n->lib, "nvmlDeviceGetComputeRunningProcesses_v3", &get) < 0)
		return 0;
	scoped_lock(&n->lock);
	do {
		count = n->n_holders;
		r = count ? get(n->handle, &count, n->holders) : NVML_INSUFFICIENT_SIZE;
	} while (r && more_room(r, &n->holders, &n->n_holders, sizeof(*n->holders)));
	if (r)
		return 0;
	h = n->holders;
	for (unsigned i = 0; i < MIN(count, n->n_holders); i++) {
		if (h[i].pid != (unsigned)getpid() && !(alone && count == 1))
			continue;
		return h[i].bytes == UINT64_MAX ? 0 : h[i].bytes;
	}
	return 0;
}

unsigned cuda_holders(struct device *dev, struct device_holder *ret, unsigned n)
{
	int (*get)(struct handle *, unsigned *, struct holder *);
	_cleanup_free_ struct holder *h = calloc(n, sizeof(*h));
	unsigned count = n, known = 0;

	if (!h || !dev->nvml ||
	    look_up(dev->nvml->lib, "nvmlDeviceGetComputeRunningProcesses_v3", &get) <
		    0 ||
	    get(dev->nvml->handle, &count, h))
		return 0;
	for (unsigned i = 0; i < MIN(count, n); i++) {
		if (h[i].bytes == UINT64_MAX)
			continue;
		ret[known++] = (struct device_holder){h[i].pid, h[i].bytes};
	}
	return known;
}

/* Bytes that contexts take. In a container, where process numbers differ, the GPU's only
 * process is taken for this one. */
uint64_t cuda_overhead(struct device *dev)
{
	uint64_t bytes = process_bytes(dev->nvml, true);

	if (!bytes)
		log_info("cuda: nobody says what a context takes");
	return bytes;
}

/* How often NVML is asked until no allocation was made or released meanwhile. */
#define FOOTPRINT_TRIES 4

/*
 * NVML counts in steps of 2 MiB, as the driver takes memory. Whether an imported
 * allocation counts for this process as well as for its maker is not documented: both may
 * be.
 */
bool cuda_footprint(struct device *dev, uint64_t *ret_least, uint64_t *ret_most)
{
	uint64_t bytes, least, most, in_least, in_most;
	struct tally_look look, look_in;

	for (unsigned i = 0; i < FOOTPRINT_TRIES; i++) {
		look = tally_look(&dev->created);
		look_in = tally_look(&dev->imports);
		bytes = process_bytes(dev->nvml, false);
		if (!bytes)
			return false;
		tally_bounds(&dev->created, look, &least, &most);
		tally_bounds(&dev->imports, look_in, &in_least, &in_most);
		if (least == most)
			break;
	}
	*ret_least = bytes - MIN(bytes, most + in_most);
	*ret_most = bytes - MIN(bytes, least);
	return true;
}

/* The file that libcuda.so.1 is a link to carries the version in its name. */
static void version_from_file(char *ret, size_t size)
{
	static const char stem[] = "libcuda.so.";
	_cleanup_free_ char *path = NULL;
	const char *name;
	Dl_info at;

	if (!dladdr((void *)cu.cuInit, &at) || !at.dli_fname)
		return;
	path = realpath(at.dli_fname, NULL);
	name = path ? strrchr(path, '/') : NULL;
	name = name ? strstr(name, stem) : NULL;
	if (name && strchr(name + strlen(stem), '.'))
		snprintf(ret, size, "%s", name + strlen(stem));
}

static void version(struct cuda_nvml *n, char *ret, size_t size)
{
	int (*get)(char *, unsigned);

	if (n && look_up(n->lib, "nvmlSystemGetDriverVersion", &get) == 0 &&
	    get(ret, (unsigned)size) == 0) {
		ret[size - 1] = '\0';
		return;
	}
	version_from_file(ret, size);
}

static int open_handle(struct cuda_nvml *n, const uint8_t *uuid)
{
	int (*by_uuid)(const char *, struct handle **);
	char text[48], *p = text;
	int (*init)(void);

	if (look_up(n->lib, "nvmlInit_v2", &init) < 0 ||
	    look_up(n->lib, "nvmlDeviceGetHandleByUUID", &by_uuid) < 0 || init())
		return -1;
	p += sprintf(p, "GPU-");
	for (unsigned i = 0; i < 16; i++)
		p += sprintf(p, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
			     uuid[i]);
	if (by_uuid(text, &n->handle))
		return -1;
	if (look_up(n->lib, "nvmlDeviceGetProcessUtilization", &n->processes) < 0)
		n->processes = NULL;
	return 0;
}

void cuda_nvml_open(struct device *dev)
{
	struct cuda_nvml *n = calloc(1, sizeof(*n));

	if (n)
		n->lib = dlopen(NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!n || !n->lib || open_handle(n, dev->info.uuid) < 0) {
		log_info("cuda: no sensors: %s does not open", NVML_LIBRARY);
		free(steal(n));
	}
	if (n)
		pthread_mutex_init(&n->lock, NULL);
	dev->nvml = n;
	version(n, dev->info.driver, sizeof(dev->info.driver));
}

void cuda_nvml_close(struct device *dev)
{
	int (*end)(void);

	if (!dev->nvml)
		return;
	if (look_up(dev->nvml->lib, "nvmlShutdown", &end) == 0)
		end();
	pthread_mutex_destroy(&dev->nvml->lock);
	free(dev->nvml->samples);
	free(dev->nvml->holders);
	free(steal(dev->nvml));
}
