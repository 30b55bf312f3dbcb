/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/ctl/doctor.h"
#include "tools/ctl/proc.h"
#include "util/conf.h"

/* ---- the driver ---- */

static bool wants_gpu(const struct doctor *d)
{
	return !d->conf || strcmp(d->conf->device, "soft") != 0;
}

/* "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release": the word
 * that has digits and a point. */
static const char *find_version(const char *text, int *ret_n)
{
	for (const char *at = text; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
		size_t n = strspn(at, "0123456789.");

		if (n && (at[n] == ' ' || !at[n]) && memchr(at, '.', n)) {
			*ret_n = (int)n;
			return at;
		}
	}
	*ret_n = 1;
	return "?";
}

static void say_version(const struct doctor *d, const char *text)
{
	int n;
	const char *at = find_version(text, &n);

	if (strtol(at, NULL, 10) < 580)
		doctor_say(d, FOUND_HINT, "driver",
			   "install NVIDIA's driver 580 or later",
			   "NVIDIA's driver is %.*s, Weft is tested with 580 and later",
			   n, at);
	else
		doctor_say(d, FOUND_OK, "driver", NULL, "NVIDIA's driver %.*s", n, at);
}

static void check_files(const struct doctor *d)
{
	static const char *const files[] = {"/dev/nvidiactl", "/dev/nvidia0",
					    "/dev/nvidia-uvm"};

	for (unsigned i = 0; i < ARRAY_SIZE(files); i++) {
		if (!doctor_exists(d, files[i]))
			doctor_say(d, FOUND_WRONG, "driver", "nvidia-modprobe -c0 -u",
				   "%s is not there", files[i]);
	}
}

static void check_driver(const struct doctor *d)
{
	bool automatic = d->conf && !strcmp(d->conf->device, "auto");
	char text[256];

	if (!wants_gpu(d)) {
		doctor_say(d, FOUND_OK, "driver", NULL,
			   "weftd.conf wants the software GPU, which needs none");
		return;
	}
	if (doctor_read(d, "/proc/driver/nvidia/version", text, sizeof(text)) < 0) {
		doctor_say(d, automatic ? FOUND_HINT : FOUND_WRONG, "driver",
			   "install NVIDIA's driver 580 or later, then modprobe nvidia",
			   automatic ? "NVIDIA's driver is not loaded: the software GPU "
				       "takes its place"
				     : "NVIDIA's driver is not loaded");
		return;
	}
	say_version(d, text);
	check_files(d);
}

/* Kernels that reach all memory of their process would reach their worker's. */
static void check_hmm(const struct doctor *d)
{
	char text[16];

	if (!wants_gpu(d) ||
	    doctor_read(d, "/sys/module/nvidia_uvm/parameters/uvm_disable_hmm", text,
			sizeof(text)) < 0)
		return;
	if (*text == 'Y' || *text == '1')
		doctor_say(d, FOUND_OK, "hmm", NULL, "is off");
	else
		doctor_say(d, d->weftd ? FOUND_HINT : FOUND_WRONG, "hmm",
			   "echo options nvidia_uvm uvm_disable_hmm=1 > "
			   "/etc/modprobe.d/weft.conf; modprobe -r nvidia_uvm; modprobe "
			   "nvidia_uvm",
			   "is on: workers do not start where a GPU uses it");
}

static bool is_mps(const struct proc *p, void *arg)
{
	return !strncmp(proc_name(p), "nvidia-cuda-mps", 15);
}

static void check_mps(const struct doctor *d)
{
	const char *dir = d->conf ? d->conf->mps : NULL;
	pid_t pid = proc_find(d->root, is_mps, NULL);

	if (dir && !pid)
		doctor_say(d, FOUND_WRONG, "mps", "systemctl enable --now weft-mps",
			   "MPS does not run, and mps in weftd.conf is %s: programs of "
			   "class shared do not start",
			   dir);
	else if (dir)
		doctor_say(d, FOUND_OK, "mps", NULL,
			   "MPS runs (pid %d), for class shared", (int)pid);
	else if (pid)
		doctor_say(d, FOUND_OK, "mps", NULL,
			   "MPS runs (pid %d): no worker is a client of its", (int)pid);
	else
		doctor_say(d, FOUND_OK, "mps", NULL, "does not run");
}

/* ---- the kernel ---- */

static void check_cgroup(const struct doctor *d)
{
	if (d->conf && d->conf->cgroup && !strcmp(d->conf->cgroup, "none"))
		doctor_say(d, FOUND_HINT, "cgroup",
			   "take cgroup = none out of weftd.conf",
			   "weftd.conf wants none: what workers take of the host is not "
			   "bounded by the kernel");
	else if (!doctor_exists(d, "/sys/fs/cgroup/cgroup.controllers"))
		doctor_say(d, FOUND_HINT, "cgroup",
			   "boot with systemd.unified_cgroup_hierarchy=1",
			   "there is no cgroup of version 2: what workers take of the "
			   "host is not bounded by the kernel");
	else
		doctor_say(d, FOUND_OK, "cgroup", NULL, "version 2");
}

/* Shared memory in huge pages: windows, and what is evicted. */
static void check_hugepages(const struct doctor *d)
{
	static const char path[] = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
	char text[128];

	if (doctor_read(d, path, text, sizeof(text)) < 0)
		return;
	if (strstr(text, "[never]") || strstr(text, "[deny]"))
		doctor_say(d, FOUND_HINT, "hugepages",
			   "echo advise > "
			   "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
			   "shared memory gets none: windows and evicted memory take "
			   "longer to map");
	else
		doctor_say(d, FOUND_OK, "hugepages", NULL, "shared memory may have them");
}

/* ---- who is who ---- */

static void check_users(const struct doctor *d)
{
	if (*d->root)
		return; /* names are the host's */
	if (getpwnam("weft"))
		doctor_say(d, FOUND_OK, "user", NULL, "workers have the group weft");
	else
		doctor_say(d, FOUND_HINT, "user", "systemd-sysusers",
			   "there is no user weft: workers have the group of nobody");
	if (d->conf && d->conf->operators && !getgrnam(d->conf->operators))
		doctor_say(d, FOUND_WRONG, "user", "groupadd --system GROUP",
			   "there is no group %s, weftd.conf's operators",
			   d->conf->operators);
}

void doctor_host(const struct doctor *d)
{
	check_driver(d);
	check_hmm(d);
	check_mps(d);
	check_cgroup(d);
	check_hugepages(d);
	check_users(d);
}
