/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/ctl/doctor.h"
#include "tools/ctl/proc.h"

/* ---- CIDs ---- */

#define CIDS_MAX 1024u

struct cids {
	const struct doctor *d;
	unsigned n;
	struct cid {
		uint64_t cid;
		pid_t pid, parent;
	} of[CIDS_MAX];
};

static pid_t parent_of(const struct doctor *d, pid_t pid)
{
	char path[64], text[512], *at;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (doctor_read(d, path, text, sizeof(text)) < 0)
		return 0;
	/* Behind the program's name: its state, a letter, and then its parent. */
	at = strrchr(text, ')');
	return at && strlen(at) > 4 ? (pid_t)strtol(at + 4, NULL, 10) : 0;
}

static void add_cid(struct cids *c, const char *text, pid_t pid)
{
	char *end;
	uint64_t cid = strtoull(text, &end, 10);

	if (end > text && c->n < CIDS_MAX)
		c->of[c->n++] = (struct cid){cid, pid, parent_of(c->d, pid)};
}

/* Devices of weft-vsock, and of the host's own vhost. */
static bool note_cid(const struct proc *p, void *arg)
{
	const char *at = NULL;

	if (!strcmp(proc_name(p), "weft-vsock")) {
		at = proc_word_after(p, "--cid");
		if (!at && (at = proc_word_with(p, "--cid=")))
			at += strlen("--cid=");
	} else if (!strncmp(proc_name(p), "qemu-", 5)) {
		at = proc_word_with(p, "guest-cid");
		if (at)
			at += strlen("guest-cid") +
			      strspn(at + strlen("guest-cid"), "=\": ");
	}
	if (at)
		add_cid(arg, at, p->pid);
	return false;
}

/* A device's server is a child of its supervisor, with the same words. */
static bool is_one_device(const struct cid *a, const struct cid *b)
{
	return a->parent == b->pid || b->parent == a->pid;
}

static void check_cids(const struct doctor *d)
{
	static struct cids c;
	unsigned n = 0;
	bool wrong = false;

	c.d = d;
	c.n = 0;
	proc_find(d->root, note_cid, &c);
	for (unsigned i = 0; i < c.n; i++) {
		bool again = false;

		for (unsigned k = 0; k < i; k++) {
			if (c.of[i].cid != c.of[k].cid)
				continue;
			again = true;
			if (is_one_device(&c.of[i], &c.of[k]))
				continue;
			wrong = true;
			doctor_say(d, FOUND_WRONG, "cid",
				   "give one of them another --cid (libvirt: <cid "
				   "address='N'/>), and start it again",
				   "two VMs have the CID %" PRIu64 " (pids %d and %d)",
				   c.of[i].cid, (int)c.of[k].pid, (int)c.of[i].pid);
		}
		n += !again;
	}
	if (!wrong)
		doctor_say(d, FOUND_OK, "cid", NULL,
			   "%u VMs with a vsock device, each with a CID of its own", n);
}

/* ---- libvirt ---- */

static bool has_hook(const struct doctor *d)
{
	char path[512];
	struct dirent *e;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/etc/libvirt/hooks/qemu.d", d->root);
	dir = opendir(path);
	while (dir && !found && (e = readdir(dir)))
		found = strstr(e->d_name, "weft") != NULL;
	if (dir)
		closedir(dir);
	return found;
}

static void check_libvirt(const struct doctor *d)
{
	if (!doctor_exists(d, "/usr/sbin/libvirtd") &&
	    !doctor_exists(d, "/usr/sbin/virtqemud"))
		doctor_say(d, FOUND_OK, "libvirt", NULL, "is not installed");
	else if (!has_hook(d))
		doctor_say(d, FOUND_HINT, "libvirt",
			   "install weft-host, then systemctl restart libvirtd",
			   "Weft's hook is not in /etc/libvirt/hooks/qemu.d: domains are "
			   "registered by hand");
	else
		doctor_say(d, FOUND_OK, "libvirt", NULL, "Weft's hook is installed");
}

void doctor_vms(const struct doctor *d)
{
	check_cids(d);
	check_libvirt(d);
}
