/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macros.h"
#include "util/sandbox_int.h"

/* A thread for each lane, the software device's and a driver's. */
#define THREADS_MAX 4096

int sandbox_mode_parse(const char *text, enum sandbox_mode *ret_mode)
{
	static const char *const names[] = {
		[SANDBOX_ON] = "on", [SANDBOX_LOG] = "log", [SANDBOX_OFF] = "off"};

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		if (!strcmp(text, names[i])) {
			*ret_mode = (enum sandbox_mode)i;
			return 0;
		}
	}
	return -EINVAL;
}

int sandbox_early(int first_fd)
{
	setsid(); /* fails only if that is so already */
	if (syscall(SYS_close_range, first_fd, ~0u, 0) < 0)
		return -errno;
	return 0;
}

static int limit(int resource, rlim_t max)
{
	struct rlimit l;

	if (getrlimit(resource, &l) < 0)
		return -errno;
	l.rlim_cur = l.rlim_max = MIN(max, l.rlim_max);
	return setrlimit(resource, &l) < 0 ? -errno : 0;
}

int sandbox_limits(const struct sandbox *s)
{
	int r = limit(RLIMIT_CORE, 0);

	if (r == 0 && s->files)
		r = limit(RLIMIT_NOFILE, s->files);
	if (r == 0 && s->own_user)
		r = limit(RLIMIT_NPROC, THREADS_MAX);
	/* A core pattern that is a pipe does not look at the limit. */
	if (r == 0 && prctl(PR_SET_DUMPABLE, s->mode == SANDBOX_LOG, 0, 0, 0) < 0)
		r = -errno;
	if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		r = -errno;
	return r;
}

static const struct passwd *find_user(const char *user)
{
	const struct passwd *pw;

	if (user)
		return getpwnam(user);
	pw = getpwnam("weft");
	return pw ? pw : getpwnam("nobody");
}

/* UID:GID, of which there need not be an entry anywhere. */
static int parse_ids(const char *user, uid_t *ret_uid, gid_t *ret_gid)
{
	unsigned long uid, gid;
	char *end;

	if (!user || *user < '0' || *user > '9')
		return -EINVAL;
	uid = strtoul(user, &end, 10);
	if (*end != ':' || end[1] < '0' || end[1] > '9')
		return -EINVAL;
	gid = strtoul(end + 1, &end, 10);
	if (*end || uid >= UINT32_MAX || gid >= UINT32_MAX)
		return -EINVAL;
	*ret_uid = (uid_t)uid;
	*ret_gid = (gid_t)gid;
	return 0;
}

int sandbox_ids(const char *user, uid_t *ret_uid, gid_t *ret_gid)
{
	const struct passwd *pw;
	uid_t uid;
	gid_t gid;

	if (parse_ids(user, &uid, &gid) < 0) {
		pw = find_user(user);
		if (!pw)
			return -ENOENT;
		uid = pw->pw_uid;
		gid = pw->pw_gid;
	}
	if (uid == 0)
		return -EPERM;
	*ret_uid = uid;
	*ret_gid = gid;
	return 0;
}

/* For this process and all that it starts. */
static int keep_capabilities(uint64_t keep)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct has[2];

	if (syscall(SYS_capget, &head, has) < 0)
		return -errno;
	for (unsigned i = 0; i < ARRAY_SIZE(has); i++) {
		uint32_t mask = (uint32_t)(keep >> 32 * i);

		has[i].permitted &= mask;
		has[i].effective = has[i].permitted;
		has[i].inheritable = 0;
	}
	/* Without the right to that nothing can be got out of the bounding set, either. */
	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
		if (!(keep >> cap & 1))
			(void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	}
	return syscall(SYS_capset, &head, has) < 0 ? -errno : 0;
}

int sandbox_user(const struct sandbox *s)
{
	if (s->capabilities)
		return keep_capabilities(s->capabilities);
	if (geteuid() != 0)
		return 0;
	if (s->uid == 0)
		return -EPERM;
	if (setgroups(0, NULL) < 0 || setresgid(s->gid, s->gid, s->gid) < 0 ||
	    setresuid(s->uid, s->uid, s->uid) < 0)
		return -errno;
	return 0;
}

/* A sanitizer's runtime makes calls of its own, at any time. */
bool sandbox_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||               \
	__has_feature(undefined_behavior_sanitizer)
	return true;
#endif
#endif
	return false;
}

/* ---- the steps ---- */

int sandbox_files(struct sandbox *s)
{
	const char *absent = sandbox_absent(s->kind);
	int r;

	if (s->mode == SANDBOX_OFF || sandbox_sanitized())
		return 0;
	/* While /etc/passwd can be read. */
	r = geteuid() == 0 && !s->capabilities ? sandbox_ids(s->user, &s->uid, &s->gid)
					       : 0;
	if (r < 0)
		return r;
	if (s->mode == SANDBOX_LOG) {
		r = sandbox_watch(s->kind);
		if (r < 0)
			return r;
		s->watcher = r;
		return 0;
	}
	if (s->at_once)
		absent = NULL;
	s->absent = absent;
	return absent ? 0 : sandbox_restrict_files(s->kind);
}

int sandbox_calls(const struct sandbox *s)
{
	if (s->mode == SANDBOX_LOG)
		return s->watcher > 0 ? sandbox_watch_all(s->watcher) : 0;
	return sandbox_restrict_calls(s->kind);
}

int sandbox_enter(const struct sandbox *s)
{
	int r;

	if (s->mode == SANDBOX_OFF) {
		log_warning("running without a sandbox");
		return 0;
	}
	if (s->kind == SANDBOX_WORKER_CUDA && s->absent)
		log_warning("%s was not there at the start: no files are kept from this "
			    "process; run nvidia-modprobe -c0 -u before weftd",
			    s->absent);
	r = sandbox_limits(s);
	if (r < 0)
		return r;
	if (sandbox_sanitized()) {
		log_info("built with a sanitizer, whose reports need files: no sandbox");
		return 0;
	}
	r = sandbox_user(s);
	return r < 0 ? r : sandbox_calls(s);
}
