/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cgroup (version 2) for each tenant, for what no account of weftd's can bound: memory
 * that a worker takes without asking, and threads. Ours is
 *
 *	TOP/weftd	weftd, and workers that wait for a guest
 *	TOP/tenant-NAME	its listener, and workers with a session of its own
 *
 * where TOP is a subtree that was given to us: the service's own if systemd says so
 * (Delegate=), or the one that is configured. Processes are in its leaves only, else
 * it could not have controllers. A worker is moved when it gets its session; what it took
 * before, its context, stays with weftd. Without such a subtree all works as with it.
 *
 * When a tenant's memory runs out the kernel ends its largest worker, which is one
 * session, and not all of them (memory.oom.group).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/child/cgroup.h"
#include "broker/loop/aside.h"
#include "broker/tenant.h"
#include "util/conf.h"
#include "util/size.h"

#define REMOVE_MS 50 /* that weftd waits for an empty cgroup, which is rare */
#define LEAF      "weftd"
#define TENANT    "tenant-"

/* Memory of a worker besides what is charged: its program's and its driver's heaps. */
#define WORKER_BYTES (256ull << 20)
/* Threads of a worker, beside one for each lane and one for each processor. */
#define WORKER_THREADS 64u

/* ---- files ---- */

static int put(int dir, const char *file, const char *text)
{
	/* Nothing is cut off in a cgroup; a file that stands in for one is written anew.
	 */
	_cleanup_close_ int fd = openat(dir, file, O_WRONLY | O_TRUNC | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return -errno;
	return 0;
}

static int put_pid(int dir, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	return put(dir, "cgroup.procs", text);
}

/* Opens a directory below another, which it makes if need be. */
static int open_below(int dir, const char *name)
{
	int fd;

	if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* ---- the subtree ---- */

/* Our own cgroup as /proc/self/cgroup says, or NULL; malloced. */
static char *own_path(void)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char *line = NULL, *path = NULL;
	size_t room = 0;

	while (f && !path && getline(&line, &room, f) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "0::/", 4))
			path = strdup(line + 3);
	}
	free(line);
	if (f)
		fclose(f);
	return path;
}

/* Where a cgroup is seen: a line of mountinfo has, in this order, the directory that is
 * mounted, where, and behind a hyphen the kind. NULL: not there. */
static char *seen_at(const char *line, const char *path)
{
	const char *kind = strstr(line, " - ");
	char root[512], at[512], *seen;
	size_t n;

	if (!kind || strncmp(kind, " - cgroup2 ", 11) != 0 ||
	    sscanf(line, "%*s %*s %*s %511s %511s", root, at) != 2)
		return NULL;
	n = strcmp(root, "/") ? strlen(root) : 0;
	if (strncmp(path, root, n) != 0 || (path[n] && path[n] != '/'))
		return NULL;
	return asprintf(&seen, "%s%s", at, path + n) < 0 ? NULL : seen;
}

static char *own_directory(void)
{
	_cleanup_free_ char *path = own_path();
	FILE *f = path ? fopen("/proc/self/mountinfo", "re") : NULL;
	char *line = NULL, *seen = NULL;
	size_t room = 0;

	while (f && !seen && getline(&line, &room, f) > 0)
		seen = seen_at(line, path);
	free(line);
	if (f)
		fclose(f);
	return seen;
}

/* systemd marks what it has given away. */
static bool is_delegated(const char *path)
{
	char mark = '\0';

	return (getxattr(path, "user.delegate", &mark, 1) == 1 ||
		getxattr(path, "trusted.delegate", &mark, 1) == 1) &&
	       mark == '1';
}

/* Groups of tenants of a daemon that was killed. Those with somebody in them stay. */
static void clear(int top)
{
	DIR *d = fdopendir(openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *e;

	while (d && (e = readdir(d))) {
		if (!strncmp(e->d_name, TENANT, strlen(TENANT)))
			(void)unlinkat(top, e->d_name, AT_REMOVEDIR);
	}
	if (d)
		closedir(d);
}

static int use(struct broker *b, const char *path)
{
	_cleanup_close_ int top = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int leaf = -1;
	bool memory, pids;
	int r;

	if (top < 0)
		return -errno;
	if (faccessat(top, "cgroup.procs", F_OK, 0) < 0)
		return -ENOTTY;
	leaf = open_below(top, LEAF);
	if (leaf < 0)
		return leaf;
	r = put_pid(leaf, getpid());
	if (r < 0)
		return r;
	memory = put(top, "cgroup.subtree_control", "+memory") == 0;
	pids = put(top, "cgroup.subtree_control", "+pids") == 0;
	clear(top);
	b->cgroup = fd_steal(&top);
	log_info("cgroup %s: one for each tenant, which bounds %s", path,
		 memory && pids ? "memory and threads"
		 : memory       ? "memory"
		 : pids         ? "threads"
				: "nothing: it has no such controllers");
	return 0;
}

void cgroups_open(struct broker *b)
{
	const char *path = b->conf->cgroup;
	_cleanup_free_ char *own = NULL;
	int r;

	b->cgroup = -1;
	if (path && !strcmp(path, "none"))
		return;
	if (!path) {
		own = own_directory();
		if (!own || !is_delegated(own)) {
			log_info("no cgroup of version 2 is ours: what tenants' workers "
				 "take is bounded by the daemon's accounts alone");
			return;
		}
		path = own;
	}
	r = use(b, path);
	if (r < 0)
		log_info("cgroup %s is not used: %s", path,
			 r == -ENOTTY ? "it is no cgroup of version 2" : strerror(-r));
}

/* ---- tenants ---- */

static void limit(const struct tenant *t, const char *file, uint64_t value)
{
	char text[24] = "max";
	int r;

	if (value != UINT64_MAX)
		snprintf(text, sizeof(text), "%" PRIu64, value);
	r = put(t->cgroup, file, text);
	/* Not there: the subtree has no such controller, as was said. */
	if (r < 0 && r != -ENOENT)
		log_warning("tenant %s: %s of its cgroup: %s", t->name, file,
			    strerror(-r));
}

static uint64_t add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* All that it may hold of the host's memory by any of its limits. */
static uint64_t memory_max(const struct tenant *t)
{
	const struct broker *b = t->b;
	uint64_t sum = MIN(add(t->host_max, t->wmem_max), b->host_max);

	sum = add(sum, t->sessions_max * WORKER_BYTES);
	sum = add(sum, MIN(t->memory.swap_max, b->swap));
	/* The software device's memory is the host's. */
	if (b->own_memory)
		sum = add(sum, MIN(t->memory.max, b->device_total));
	return sum;
}

void cgroup_limits(const struct tenant *t)
{
	unsigned own = WORKER_THREADS + (unsigned)get_nprocs();

	if (t->cgroup < 0)
		return;
	limit(t, "memory.max", memory_max(t));
	limit(t, "pids.max", t->lanes_max + (uint64_t)t->sessions_max * own);
}

void cgroup_new(struct tenant *t)
{
	char name[sizeof(TENANT) + CONF_NAME_MAX];
	int fd;

	t->cgroup = -1;
	if (t->b->cgroup < 0)
		return;
	snprintf(name, sizeof(name), TENANT "%s", t->name);
	fd = open_below(t->b->cgroup, name);
	if (fd < 0) {
		log_warning("tenant %s: no cgroup: %s", t->name, strerror(-fd));
		return;
	}
	t->cgroup = fd;
	cgroup_limits(t);
}

void cgroup_enter(const struct tenant *t, pid_t pid)
{
	int fd = t->cgroup < 0 ? -1
			       : openat(t->cgroup, "cgroup.procs",
					O_WRONLY | O_TRUNC | O_CLOEXEC);

	/* The kernel waits for all processors meanwhile. */
	if (fd >= 0)
		aside_write_pid(fd, pid);
	else if (t->cgroup >= 0)
		log_debug("tenant %s: cgroup.procs: %m", t->name);
}

/* A process that has been waited for leaves its cgroup when its processor has switched to
 * another, which may be a moment later. */
static int remove_empty(int top, const char *name)
{
	int r = -EBUSY;

	for (unsigned i = 0; i < REMOVE_MS && r == -EBUSY; i++) {
		if (i)
			usleep(1000);
		r = unlinkat(top, name, AT_REMOVEDIR) < 0 ? -errno : 0;
	}
	return r;
}

void cgroup_end(struct tenant *t)
{
	char name[sizeof(TENANT) + CONF_NAME_MAX];
	int r;

	if (t->cgroup < 0)
		return;
	close(fd_steal(&t->cgroup));
	snprintf(name, sizeof(name), TENANT "%s", t->name);
	r = remove_empty(t->b->cgroup, name);
	if (r < 0)
		log_info("tenant %s: its cgroup stays until weftd starts again: %s",
			 t->name, strerror(-r));
}
