/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/list.h"
#include "tools/ctl/doctor.h"
#include "util/conf.h"
#include "util/size.h"

#define FILES_LEAST 65536u /* of weftd, for some hundred tenants and what they share */

/* ---- limits ---- */

/* A row of /proc/PID/limits: its hard limit, UINT64_MAX for "unlimited". */
static bool read_limit(const struct doctor *d, const char *name, uint64_t *ret)
{
	char path[64], text[4096], *at;

	snprintf(path, sizeof(path), "/proc/%d/limits", (int)d->weftd);
	if (doctor_read(d, path, text, sizeof(text)) < 0)
		return false;
	at = strstr(text, name);
	if (!at)
		return false;
	at += strlen(name);
	at += strspn(at, " ");
	at += strcspn(at, " \n"); /* the soft one */
	at += strspn(at, " ");
	*ret = !strncmp(at, "unlimited", 9) ? UINT64_MAX : strtoull(at, NULL, 10);
	return true;
}

static void check_limits(const struct doctor *d)
{
	uint64_t files, memlock;
	char buf[32];

	if (!d->weftd)
		return;
	if (read_limit(d, "Max open files", &files)) {
		if (files < FILES_LEAST)
			doctor_say(d, FOUND_HINT, "files",
				   "systemctl edit weftd: [Service] LimitNOFILE=65536; "
				   "then restart it",
				   "weftd may open %" PRIu64 " files: too few for many "
				   "tenants",
				   files);
		else
			doctor_say(d, FOUND_OK, "files", NULL, "weftd may open %" PRIu64,
				   files);
	}
	if (read_limit(d, "Max locked memory", &memlock))
		doctor_say(d, FOUND_OK, "memlock", NULL,
			   "%s; Weft locks none, the driver is not bound by it",
			   size_format(memlock, buf, sizeof(buf)));
}

/* ---- windows and sockets ---- */

static int stat_below(const struct doctor *d, const char *path, struct stat *ret)
{
	char full[4096];

	if (snprintf(full, sizeof(full), "%s%s", d->root, path) >= (int)sizeof(full))
		return -ENAMETOOLONG;
	return stat(full, ret) < 0 ? -errno : 0;
}

static bool check_window(const struct doctor *d, const struct conf_tenant *t)
{
	char is[32], wants[32];
	struct stat st;
	int r = stat_below(d, t->window_path, &st);

	if (r < 0 && d->weftd) {
		doctor_say(d, FOUND_WRONG, "window",
			   "systemctl restart weftd, then the VM", "tenant %s: %s: %s",
			   t->name, t->window_path, strerror(-r));
		return false;
	}
	if (r == 0 && (uint64_t)st.st_size != t->window_size && S_ISREG(st.st_mode)) {
		doctor_say(d, FOUND_WRONG, "window",
			   "end the VM, remove the file, systemctl restart weftd",
			   "tenant %s: %s has %s, weftd.conf wants %s", t->name,
			   t->window_path,
			   size_format((uint64_t)st.st_size, is, sizeof(is)),
			   size_format(t->window_size, wants, sizeof(wants)));
		return false;
	}
	return true;
}

/* All windows of a file system may be full one day. */
static void check_room(const struct doctor *d, uint64_t bytes)
{
	char path[512], has[32], wants[32];
	struct statfs fs;
	uint64_t room;

	snprintf(path, sizeof(path), "%s/dev/shm", d->root);
	if (!bytes || statfs(path, &fs) < 0)
		return;
	room = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
	if (room < bytes)
		doctor_say(d, FOUND_WRONG, "window",
			   "mount -o remount,size=SIZE /dev/shm",
			   "/dev/shm has room for %s, windows in it want %s",
			   size_format(room, has, sizeof(has)),
			   size_format(bytes, wants, sizeof(wants)));
}

static void check_windows(const struct doctor *d)
{
	const struct conf_tenant *t;
	uint64_t in_shm = 0;
	unsigned n = 0;
	bool ok = true;

	list_for_each (t, &d->conf->tenants, link) {
		if (!t->window_path)
			continue;
		n++;
		if (!strncmp(t->window_path, "/dev/shm/", 9))
			in_shm += t->window_size;
		ok = check_window(d, t) && ok;
	}
	check_room(d, in_shm);
	if (ok)
		doctor_say(d, FOUND_OK, "window", NULL, "%u, as weftd.conf wants them",
			   n);
}

static void check_sockets(const struct doctor *d)
{
	const struct conf_tenant *t;
	unsigned n = 0;
	struct stat st;

	if (!d->weftd)
		return;
	list_for_each (t, &d->conf->tenants, link) {
		if (!t->socket)
			continue;
		n++;
		if (stat_below(d, t->socket, &st) < 0 || !S_ISSOCK(st.st_mode))
			doctor_say(d, FOUND_WRONG, "socket", "systemctl restart weftd",
				   "tenant %s: its socket %s is not there: its programs "
				   "find no GPU",
				   t->name, t->socket);
	}
	if (n)
		doctor_say(d, FOUND_OK, "socket", NULL, "%u looked at", n);
}

void doctor_weftd(const struct doctor *d)
{
	check_limits(d);
	if (!d->conf)
		return;
	check_windows(d);
	check_sockets(d);
}
