/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "util/conf.h"
#include "util/conf_alias.h"
#include "util/size.h"

/* MIG's names have GB, an eighth of the device's rounded up: as powers of ten eight of them
 * are no more than the device. vGPU's are what a VM sees, in GiB. */
#define GB  1000000000ull
#define GIB (1ull << 30)
#define MIB (1ull << 20)
/* Above these a name is no profile of any device. */
#define GB_MAX     4096u
#define MIB_MAX    (16u << 20)

#define KUBERNETES "nvidia.com/" /* HAMi's keys, as pods have them */

/* Digits only; the end is where they end. */
static int read_number(const char **at, unsigned max, unsigned *ret)
{
	unsigned long n;
	char *end;

	if (!isdigit((unsigned char)**at))
		return -EINVAL;
	errno = 0;
	n = strtoul(*at, &end, 10);
	if (errno || n > max)
		return -ERANGE;
	*at = end;
	*ret = (unsigned)n;
	return 0;
}

static int whole_number(const char *value, unsigned max, unsigned *ret)
{
	int r = read_number(&value, max, ret);

	return r < 0 ? r : *value ? -EINVAL : 0;
}

static bool skip(const char **at, const char *prefix)
{
	size_t n = strlen(prefix);

	if (strncasecmp(*at, prefix, n) != 0)
		return false;
	*at += n;
	return true;
}

/* ---- profiles ---- */

struct profile {
	uint64_t bytes;
	unsigned parts; /* of seven, of the compute units; 0: all, in turns */
};

/* "1g.18gb", also as nvidia-smi has it, after "MIG ". Engines for media or graphics, which
 * have a "+" before them, are not to be had. */
static int parse_mig(const char *name, struct profile *ret)
{
	unsigned parts, gb;

	(void)skip(&name, "MIG ");
	if (read_number(&name, 7, &parts) < 0 || !parts || !skip(&name, "g.") ||
	    read_number(&name, GB_MAX, &gb) < 0 || !gb || !skip(&name, "gb"))
		return -EINVAL;
	if (*name == '+' || *name == '-')
		return -EOPNOTSUPP;
	if (*name)
		return -EINVAL;
	*ret = (struct profile){gb * GB, parts};
	return 0;
}

/* "H200X-18C": a board, perhaps after "GRID " or "NVIDIA "; with MIG below it the number
 * of parts; GiB, 0 for half of one; A, B, C or Q. */
static int parse_vgpu(const char *name, struct profile *ret)
{
	unsigned parts = 0, gib;

	(void)(skip(&name, "GRID ") || skip(&name, "NVIDIA "));
	if (!isupper((unsigned char)*name))
		return -EINVAL;
	name += strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
	if (*name++ != '-' || read_number(&name, GB_MAX, &gib) < 0)
		return -EINVAL;
	if (*name == '-') {
		parts = gib;
		name++;
		if (!parts || parts > 7 || read_number(&name, GB_MAX, &gib) < 0)
			return -EINVAL;
	}
	if (!*name || !strchr("ABCQ", *name++))
		return -EINVAL;
	if (!strcmp(name, "ME"))
		return -EOPNOTSUPP;
	if (*name)
		return -EINVAL;
	*ret = (struct profile){gib ? gib * GIB : GIB / 2, parts};
	return 0;
}

/* 0: none. */
static struct cap cap_of(unsigned part, unsigned of)
{
	return (struct cap){.quota_us = part * CAP_PERIOD_US / of,
			    .period_us = CAP_PERIOD_US};
}

/* Memory of a profile is there and is its tenant's: no more, and none of it evicted. Of the
 * compute units it has its part, by turns, and no more of the time either. */
static int set_profile(struct conf_tenant *t, const char *value)
{
	struct profile p;
	int r = parse_mig(value, &p);

	if (r == -EINVAL)
		r = parse_vgpu(value, &p);
	if (r < 0)
		return r;
	if (strlen(value) >= sizeof(t->profile))
		return -EINVAL;
	t->memory.min = t->memory.max = p.bytes;
	snprintf(t->profile, sizeof(t->profile), "%s", value);
	t->compute.weight = p.parts ? p.parts * CONF_WEIGHT_DEFAULT : CONF_WEIGHT_DEFAULT;
	t->compute.max = cap_of(p.parts % 7, 7);
	return 0;
}

/* ---- HAMi's and MPS's ---- */

static int set_max(struct conf_tenant *t, uint64_t bytes)
{
	t->memory.max = bytes;
	*t->profile = '\0';
	return 0;
}

static int set_gpumem(struct conf_tenant *t, const char *value)
{
	unsigned mib;
	int r = whole_number(value, MIB_MAX, &mib);

	return r < 0 ? r : set_max(t, mib * MIB);
}

static int set_size(struct conf_tenant *t, const char *value)
{
	uint64_t bytes;
	int r = size_parse(value, &bytes);

	if (r == 0 && bytes != UINT64_MAX && bytes > MIB_MAX * MIB)
		r = -ERANGE;
	return r < 0 ? r : set_max(t, bytes);
}

/* "0=16G": limits by device, of which there is one. */
static int set_pinned(struct conf_tenant *t, const char *value)
{
	return skip(&value, "0=") ? set_size(t, value) : -EINVAL;
}

/* A part of the device's time: so HAMi has it, and a part of the SMs comes to that where
 * tenants have them in turn. */
static int set_cores(struct conf_tenant *t, const char *value)
{
	unsigned percent;

	if (whole_number(value, 100, &percent) < 0)
		return -EINVAL;
	t->compute.max = cap_of(percent % 100, 100);
	return 0;
}

static int set_threads(struct conf_tenant *t, const char *value)
{
	return strcmp(value, "0") ? set_cores(t, value) : -EINVAL;
}

static int set_nothing(struct conf_tenant *t, const char *value)
{
	return -EOPNOTSUPP;
}

static const struct alias {
	const char *key;
	int (*set)(struct conf_tenant *t, const char *value);
	const char *words; /* about a value that is wrong */
	const char *why;   /* about one that Weft cannot have */
} aliases[] = {
	{"profile", set_profile,
	 "is no profile of MIG or vGPU, such as 1g.18gb or H200X-18C",
	 "engines for media and graphics are not shared: name the profile without them"},
	{"gpumem", set_gpumem, "is no number of MiB", NULL},
	{"gpumem-percentage", set_nothing, NULL,
	 "give memory.max: how large the device is is known only when it is open"},
	{"gpucores", set_cores, "is no number of per cent from 0 to 100", NULL},
	{"CUDA_DEVICE_MEMORY_LIMIT", set_size, "is no size: 1536M, 1.5G, 1GiB, max",
	 NULL},
	{"CUDA_DEVICE_SM_LIMIT", set_cores, "is no number of per cent from 0 to 100",
	 NULL},
	{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", set_pinned,
	 "is no limit of device 0, such as 0=16G", NULL},
	{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", set_threads,
	 "is no number of per cent from 1 to 100", NULL},
};

static const struct alias *find(const char *key)
{
	(void)skip(&key, KUBERNETES);
	for (unsigned i = 0; i < ARRAY_SIZE(aliases); i++) {
		if (!strcmp(key, aliases[i].key))
			return &aliases[i];
	}
	return NULL;
}

bool conf_alias_known(const char *key)
{
	return find(key) != NULL;
}

int conf_alias_set(struct conf_tenant *t, const char *key, const char *value)
{
	const struct alias *a = find(key);

	return a ? a->set(t, value) : -ENOENT;
}

char *conf_alias_error(const char *key, const char *value, int error)
{
	const struct alias *a = find(key);
	char *text = NULL;
	int r = -1;

	if (a && error == -EOPNOTSUPP && a->why)
		r = asprintf(&text, "%s = %s: %s", key, value, a->why);
	else if (a && error == -EINVAL && a->words)
		r = asprintf(&text, "%s: \"%s\" %s", key, value, a->words);
	return r < 0 ? NULL : text;
}
