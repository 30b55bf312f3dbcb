/* SPDX-License-Identifier: Apache-2.0 */
/* weftctl doctor on hosts that are made up: what it finds, and what it says to type. */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/ctl/doctor.h"
#include "util/conf.h"

static char root[] = "/tmp/weft-doctor-XXXXXX";
static char said[16384];
static struct conf conf;
static struct doctor d;

static void note(void *arg, enum finding what, const char *check, const char *text,
		 const char *type)
{
	static const char marks[FOUND_NUM] = {'+', '?', '!'};
	size_t n = strlen(said);

	/* A finding that is not well has advice. */
	cr_assert(what == FOUND_OK || type, "%s: %s", check, text);
	snprintf(said + n, sizeof(said) - n, "%c %s: %s\n", marks[what], check, text);
}

/* Makes a file below the root, and the directories that it needs. */
static void make(const char *path, const char *text, size_t len)
{
	char full[512];
	FILE *f;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(full, 0700);
		*at = '/';
	}
	f = fopen(full, "w");
	cr_assert_not_null(f);
	cr_assert_eq(fwrite(text, 1, len, f), len);
	fclose(f);
}

static void make_text(const char *path, const char *text)
{
	make(path, text, strlen(text));
}

static void configure(const char *text)
{
	conf_fini(&conf);
	cr_assert_eq(conf_init(&conf), 0);
	cr_assert_eq(conf_parse(&conf, text, NULL), 0);
	cr_assert_eq(conf_complete(&conf), 0);
}

static void setup(void)
{
	cr_assert_not_null(mkdtemp(root));
	cr_assert_eq(conf_init(&conf), 0);
	d = (struct doctor){.root = root, .conf = &conf, .say = note};
}

static void teardown(void)
{
	char cmd[64];

	conf_fini(&conf);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", root);
	cr_assert_eq(system(cmd), 0);
}

TestSuite(doctor, .init = setup, .fini = teardown);

#define says(text)      cr_assert(strstr(said, text), "\"%s\" is not in:\n%s", text, said)
#define is_silent(text) cr_assert(!strstr(said, text), "\"%s\" is in:\n%s", text, said)

Test(doctor, driver_and_its_files)
{
	configure("[daemon]\ndevice = cuda\n");
	doctor_host(&d);
	says("! driver: NVIDIA's driver is not loaded");
	said[0] = '\0';
	make_text("/proc/driver/nvidia/version",
		  "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu\n");
	make_text("/dev/nvidiactl", "");
	doctor_host(&d);
	says("? driver: NVIDIA's driver is 550.54.14");
	says("! driver: /dev/nvidia0 is not there");
	is_silent("/dev/nvidiactl");
	said[0] = '\0';
	make_text("/proc/driver/nvidia/version",
		  "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  "
		  "Release\n");
	make_text("/dev/nvidia0", "");
	make_text("/dev/nvidia-uvm", "");
	doctor_host(&d);
	says("+ driver: NVIDIA's driver 580.65.06");
	is_silent("! driver");
	said[0] = '\0';
	configure("[daemon]\ndevice = soft\n");
	doctor_host(&d);
	says("+ driver: weftd.conf wants the software GPU");
}

Test(doctor, hmm_and_mps)
{
	make_text("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm", "N\n");
	make("/proc/77/cmdline", "/usr/bin/nvidia-cuda-mps-control\0-d", 35);
	doctor_host(&d);
	says("! hmm: is on");
	says("+ mps: MPS runs (pid 77): no worker is a client of its");
	said[0] = '\0';
	d.weftd = 1;
	make_text("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm", "N\n");
	make_text("/proc/77/cmdline", "");
	doctor_host(&d);
	says("? hmm: is on");
	says("+ mps: does not run");
	configure("[daemon]\nmps = /run/weft-mps\n");
	doctor_host(&d);
	says("! mps: MPS does not run, and mps in weftd.conf is /run/weft-mps");
	make("/proc/77/cmdline", "/usr/bin/nvidia-cuda-mps-control\0-f", 35);
	doctor_host(&d);
	says("+ mps: MPS runs (pid 77), for class shared");
	make_text("/proc/77/cmdline", "");
	make_text("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm", "Y\n");
	said[0] = '\0';
	doctor_host(&d);
	says("+ hmm: is off");
}

Test(doctor, cgroup_and_pages)
{
	make_text("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
		  "always within_size advise [never] deny force\n");
	doctor_host(&d);
	says("? cgroup: there is no cgroup of version 2");
	says("? hugepages: shared memory gets none");
	said[0] = '\0';
	make_text("/sys/fs/cgroup/cgroup.controllers", "memory pids\n");
	make_text("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
		  "always within_size [advise] never deny force\n");
	doctor_host(&d);
	says("+ cgroup: version 2");
	says("+ hugepages");
	said[0] = '\0';
	configure("[daemon]\ncgroup = none\n");
	doctor_host(&d);
	says("? cgroup: weftd.conf wants none");
}

#define VSOCK(cid) "/usr/bin/weft-vsock\0--socket\0/run/x\0--cid\0" cid "\0"

Test(doctor, two_devices_with_one_cid)
{
	static const char one[] = VSOCK("3"), other[] = VSOCK("4");
	static const char same[] = "weft-vsock\0--cid=3\0--socket\0/run/y";
	static const char qemu[] = "/usr/bin/qemu-system-x86_64\0-device\0"
				   "vhost-vsock-pci,guest-cid=4";

	make("/proc/10/cmdline", one, sizeof(one));
	make("/proc/11/cmdline", other, sizeof(other));
	/* The server of the first device, which its supervisor started. */
	make("/proc/12/cmdline", one, sizeof(one));
	make_text("/proc/12/stat", "12 (weft-vsock) S 10 10 10 0\n");
	doctor_vms(&d);
	says("+ cid: 2 VMs with a vsock device");
	said[0] = '\0';
	make("/proc/13/cmdline", same, sizeof(same));
	make("/proc/14/cmdline", qemu, sizeof(qemu));
	doctor_vms(&d);
	says("! cid: two VMs have the CID 3");
	says("! cid: two VMs have the CID 4");
	is_silent("each with a CID");
}

Test(doctor, libvirt_without_a_hook)
{
	doctor_vms(&d);
	says("+ libvirt: is not installed");
	said[0] = '\0';
	make_text("/usr/sbin/libvirtd", "");
	doctor_vms(&d);
	says("? libvirt: Weft's hook is not in");
	said[0] = '\0';
	make_text("/etc/libvirt/hooks/qemu.d/weft", "");
	doctor_vms(&d);
	says("+ libvirt: Weft's hook is installed");
}

Test(doctor, limits_windows_sockets)
{
	configure("[tenant a]\nwindow.path = /dev/shm/a\nwindow.size = 16M\n"
		  "socket = /run/a.sock\n");
	doctor_weftd(&d);
	says("+ window: 1");
	said[0] = '\0';
	make_text("/dev/shm/a", "short");
	d.weftd = 5;
	make_text("/proc/5/limits", "Limit                     Soft Limit           Hard "
				    "Limit           Units\n"
				    "Max open files            1024                 4096 "
				    "                files\n"
				    "Max locked memory         8388608              "
				    "unlimited            bytes\n");
	doctor_weftd(&d);
	says("! window: tenant a: /dev/shm/a has 5 B, weftd.conf wants 16 MiB");
	says("? files: weftd may open 4096 files");
	says("+ memlock: max");
	says("! socket: tenant a: its socket /run/a.sock is not there");
	said[0] = '\0';
	configure("[tenant a]\nwindow.path = /dev/shm/none\nwindow.size = 16M\n");
	doctor_weftd(&d);
	says("! window: tenant a: /dev/shm/none: No such file");
	said[0] = '\0';
	configure("[tenant a]\nwindow.path = /dev/shm/b\nwindow.size = 4T\n");
	doctor_weftd(&d);
	says("! window: /dev/shm has room for");
}

Test(doctor, files_may_be_anything)
{
	char junk[70000];

	memset(junk, 'x', sizeof(junk));
	make("/proc/driver/nvidia/version", junk, sizeof(junk));
	make("/proc/5/limits", junk, sizeof(junk));
	make("/proc/9/cmdline", junk, sizeof(junk));
	make_text("/proc/8/cmdline", "weft-vsock");
	make_text("/proc/7/cmdline", "qemu-guest-cid");
	make("/sys/kernel/mm/transparent_hugepage/shmem_enabled", junk, sizeof(junk));
	d.weftd = 5;
	doctor_host(&d);
	doctor_weftd(&d);
	doctor_vms(&d);
	says("+ cid: 0 VMs");
}
