/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock (Linux 5.13): which files may be opened, below which directories. All but
 * those with a driver open none at all. The same list tells SANDBOX_LOG what would be
 * refused.
 *
 * glibc has no functions for it, and Debian 12's header knows the first version only.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "util/sandbox_int.h"

#define FS_ALL_1     ((1ull << 13) - 1)
#define FS_REFER     (1ull << 13) /* version 2 */
#define FS_TRUNCATE  (1ull << 14) /* 3 */
#define FS_IOCTL_DEV (1ull << 15) /* 5 */
#define NET_ALL      3ull         /* 4: TCP */
#define SCOPE_ALL    3ull         /* 6: abstract sockets, signals */

#define FS_READ                                                                          \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |                    \
	 LANDLOCK_ACCESS_FS_EXECUTE)
#define FS_DEVICE                                                                        \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |                    \
	 LANDLOCK_ACCESS_FS_WRITE_FILE | FS_IOCTL_DEV)
/* Rights that a rule about a file and not about a directory may name. */
#define FS_OF_FILES                                                                      \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |                  \
	 LANDLOCK_ACCESS_FS_EXECUTE | FS_TRUNCATE | FS_IOCTL_DEV)

struct ruleset_attr {
	uint64_t fs, net, scoped;
};

struct allowed {
	const char *pattern; /* of glob(3) */
	uint64_t access;
};

/* Files that libcuda.so.1 and the libraries that it loads open. /proc/self is this
 * process's directory and nobody else's. */
static const struct allowed allowed_cuda[] = {
	{"/dev/nvidia*", FS_DEVICE},
	{"/dev/null", FS_DEVICE},
	{"/dev/zero", FS_DEVICE},
	{"/dev/random", FS_READ},
	{"/dev/urandom", FS_READ},
	{"/proc/self", FS_READ},
	/* libcuda names its first thread in comm, and gives up if it cannot. */
	{"/proc/self/task", FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE},
	{"/proc/cpuinfo", FS_READ},
	{"/proc/devices", FS_READ},
	{"/proc/driver", FS_READ},
	{"/proc/filesystems", FS_READ},
	{"/proc/meminfo", FS_READ},
	{"/proc/modules", FS_READ},
	{"/proc/stat", FS_READ},
	{"/proc/version", FS_READ},
	{"/proc/sys/kernel", FS_READ},
	{"/proc/sys/vm", FS_READ},
	{"/sys/bus", FS_READ},
	{"/sys/class", FS_READ},
	{"/sys/devices", FS_READ},
	{"/sys/kernel/mm", FS_READ},
	{"/sys/module", FS_READ},
	{"/bin", FS_READ},
	{"/lib*", FS_READ},
	{"/usr", FS_READ},
	{"/opt", FS_READ},
	{"/nix/store", FS_READ},
	{"/etc/alternatives", FS_READ},
	{"/etc/ld.so.*", FS_READ},
	{"/etc/localtime", FS_READ},
	{"/etc/nvidia*", FS_READ},
};

/* Files that EGL, Mesa's rasteriser and what they load open while they start. */
static const struct allowed allowed_gl[] = {
	{"/lib*", FS_READ},
	{"/usr", FS_READ},
	{"/etc/alternatives", FS_READ},
	{"/etc/ld.so.*", FS_READ},
	{"/etc/glvnd", FS_READ},
	{"/etc/drirc", FS_READ},
	{"/proc/self", FS_READ},
	{"/proc/cpuinfo", FS_READ},
	{"/proc/meminfo", FS_READ},
	{"/sys/devices/system", FS_READ},
};

/* More for OpenGL of a driver that CUDA has as well. */
static const struct allowed allowed_gl_cuda[] = {
	{"/dev/dri", FS_DEVICE},
	{"/etc/glvnd", FS_READ},
	{"/etc/drirc", FS_READ},
};

/* Without these a driver makes them itself, which it could not in here. */
static const char *const needed_cuda[] = {"/dev/nvidiactl", "/dev/nvidia-uvm"};

/* ---- who may open what ---- */

static bool lies_below(const char *path, const char *top)
{
	char *real = realpath(top, NULL);
	size_t n = real ? strlen(real) : 0;
	bool below = real && !strncmp(path, real, n) && (!path[n] || path[n] == '/');

	free(real);
	return below;
}

static bool matches(const char *path, const char *pattern)
{
	glob_t g;
	bool any = false;

	if (glob(pattern, GLOB_NOSORT, NULL, &g))
		return false;
	for (size_t i = 0; i < g.gl_pathc && !any; i++)
		any = lies_below(path, g.gl_pathv[i]);
	globfree(&g);
	return any;
}

/* Directories in which libraries were said to be. */
static int each_library_dir(int (*fn)(const char *dir, void *arg), void *arg)
{
	char *list = strdup(getenv("LD_LIBRARY_PATH") ?: ""), *rest = list, *dir;
	int r = list ? 0 : -ENOMEM;

	while (r == 0 && (dir = strsep(&rest, ":"))) {
		if (*dir == '/')
			r = fn(dir, arg);
	}
	free(list);
	return r;
}

static int is_below(const char *dir, void *path)
{
	return lies_below(path, dir);
}

struct files {
	const struct allowed *of;
	unsigned n;
};

#define FILES(x)                                                                         \
	{                                                                                \
		x, ARRAY_SIZE(x)                                                         \
	}

/* For each kind that opens files; those below $LD_LIBRARY_PATH, too. */
static const struct files kinds[SANDBOX_NUM][2] = {
	[SANDBOX_WORKER_CUDA] = {FILES(allowed_cuda)},
	[SANDBOX_GL_SOFT] = {FILES(allowed_gl)},
	[SANDBOX_GL_CUDA] = {FILES(allowed_cuda), FILES(allowed_gl_cuda)},
};

static bool opens_files(enum sandbox_kind kind)
{
	return kinds[kind][0].n;
}

/* Until fn returns what is not 0; returns that. */
static int each_allowed(enum sandbox_kind kind,
			int (*fn)(const struct allowed *a, void *arg), void *arg)
{
	int r = 0;

	for (unsigned k = 0; k < ARRAY_SIZE(kinds[kind]); k++) {
		const struct files *f = &kinds[kind][k];

		for (unsigned i = 0; i < f->n && r == 0; i++)
			r = fn(&f->of[i], arg);
	}
	return r;
}

struct opening {
	const char *path;
	bool write;
};

static int is_allowed(const struct allowed *a, void *arg)
{
	const struct opening *o = arg;

	return (!o->write || a->access & LANDLOCK_ACCESS_FS_WRITE_FILE) &&
	       matches(o->path, a->pattern);
}

bool sandbox_may_open(enum sandbox_kind kind, const char *path, bool write)
{
	struct opening o = {.path = path, .write = write};

	if (!opens_files(kind))
		return false;
	return each_allowed(kind, is_allowed, &o) == 1 ||
	       (!write && each_library_dir(is_below, (void *)path) == 1);
}

/* ---- Landlock ---- */

struct rules {
	int fd;
	uint64_t handled;
};

static int allow_below(const struct rules *rs, const char *path, uint64_t access)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
	struct landlock_path_beneath_attr a = {.parent_fd = fd};
	struct stat st;

	/* A file that is not there is not needed. */
	if (fd < 0 || fstat(fd, &st) < 0)
		return 0;
	if (!S_ISDIR(st.st_mode))
		access &= FS_OF_FILES;
	a.allowed_access = access & rs->handled;
	if (syscall(SYS_landlock_add_rule, rs->fd, LANDLOCK_RULE_PATH_BENEATH, &a, 0) < 0)
		return -errno;
	return 0;
}

static int allow_library_dir(const char *dir, void *rs)
{
	return allow_below(rs, dir, FS_READ);
}

static int allow_matching(const struct allowed *a, void *rs)
{
	glob_t g;
	int r = 0;

	if (glob(a->pattern, GLOB_NOSORT, NULL, &g))
		return 0;
	for (size_t i = 0; i < g.gl_pathc && r == 0; i++)
		r = allow_below(rs, g.gl_pathv[i], a->access);
	globfree(&g);
	return r;
}

static int allow_files(enum sandbox_kind kind, const struct rules *rs)
{
	int r;

	if (!opens_files(kind))
		return 0;
	r = each_allowed(kind, allow_matching, (void *)rs);
	return r < 0 ? r : each_library_dir(allow_library_dir, (void *)rs);
}

/* All that this kernel can refuse; what it does not know it must not be asked. */
static struct ruleset_attr everything(int version)
{
	struct ruleset_attr a = {.fs = FS_ALL_1};

	if (version >= 2)
		a.fs |= FS_REFER;
	if (version >= 3)
		a.fs |= FS_TRUNCATE;
	if (version >= 5)
		a.fs |= FS_IOCTL_DEV;
	a.net = version >= 4 ? NET_ALL : 0;
	a.scoped = version >= 6 ? SCOPE_ALL : 0;
	return a;
}

int sandbox_restrict_files(enum sandbox_kind kind)
{
	int version = (int)syscall(SYS_landlock_create_ruleset, NULL, 0,
				   LANDLOCK_CREATE_RULESET_VERSION);
	struct ruleset_attr a = everything(version);
	struct rules rs = {.handled = a.fs};
	_cleanup_close_ int fd = -1;
	int r;

	if (version < 0) {
		log_warning("the kernel has no Landlock: files are kept by their modes "
			    "only");
		return 0;
	}
	fd = (int)syscall(SYS_landlock_create_ruleset, &a, sizeof(a), 0);
	if (fd < 0)
		return -errno;
	rs.fd = fd;
	r = allow_files(kind, &rs);
	if (r < 0)
		return r;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		return -errno;
	return 0;
}

const char *sandbox_absent(enum sandbox_kind kind)
{
	if (kind != SANDBOX_WORKER_CUDA)
		return NULL;
	for (unsigned i = 0; i < ARRAY_SIZE(needed_cuda); i++) {
		if (access(needed_cuda[i], F_OK) < 0)
			return needed_cuda[i];
	}
	return NULL;
}
