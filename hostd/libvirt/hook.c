/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weft-hook: what libvirt calls before a VM starts and after it has ended.
 *
 * libvirt runs its hooks with NAME OPERATION SUBOPERATION EXTRA and the domain's XML on
 * standard input. What a hook says on standard error virsh shows if the hook fails, and
 * then the VM does not start. A hook may not call libvirt, which waits for it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libxml/parser.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/macros.h"
#include "libvirt/domain.h"
#include "libvirt/note.h"
#include "libvirt/register.h"
#include "libvirt/release.h"
#include "libvirt/vsock.h"

#define EXIT_USAGE 64

/* Takes over why. Returns the exit status: failed, but (late) a VM that runs goes on. */
static int say(char *why, int error, bool late)
{
	fprintf(stderr, "weft: %s\n", why ? why : strerror(-error));
	free(why);
	return late ? 0 : 1;
}

/* ---- making ready ---- */

/* All of it; what is there stays as it is, but (renew) for what the domain says anew. */
static int prepare(struct domain *d, bool renew, char **ret_why)
{
	struct note n;
	int r = note_take(d, &n, ret_why);

	renew |= r == 0 && !json_object_object_length(n.set);
	if (r == 0 && renew) {
		json_object_put(n.set);
		n.set = register_keys(d);
		r = n.set ? note_write(&n) : -ENOMEM;
	}
	if (r == 0)
		r = register_add(&n, renew, ret_why);
	if (r == 0)
		r = vsock_start(&n, ret_why);
	note_fini(&n);
	return r;
}

static int on_prepare(struct domain *d)
{
	char *why = NULL;
	int r = d->element ? domain_check(d, &why) : 0;

	if (r == 0 && d->element)
		r = prepare(d, true, &why);
	return r < 0 ? say(why, r, false) : 0;
}

/* QEMU runs, or is about to: a second time is harmless, and a failure ends no VM. */
static int on_running(struct domain *d)
{
	char *why = NULL;
	int r = d->element ? domain_check(d, &why) : 0;

	if (r == 0 && d->element)
		r = prepare(d, false, &why);
	return r < 0 ? say(why, r, true) : 0;
}

/* A VM that comes from elsewhere, or from a file: "prepare" follows. */
static int on_arrival(struct domain *d)
{
	char *why = NULL;
	int r = d->element ? domain_check(d, &why) : 0;

	if (r == 0 && d->element)
		r = register_ping(&why);
	return r < 0 ? say(why, r, false) : 0;
}

/* ---- clearing away ---- */

static int on_release(struct domain *d)
{
	char *why = NULL;
	int r = *d->uuid ? release(d->uuid, &why) : 0;

	return r < 0 ? say(why, r, true) : 0;
}

/* ---- operations ---- */

static const struct operation {
	const char *name;
	int (*fn)(struct domain *d);
	bool any; /* also of a domain whose XML is wrong by now */
} operations[] = {
	{"prepare", on_prepare, false}, {"start", on_running, false},
	{"started", on_running, false}, {"reconnect", on_running, false},
	{"migrate", on_arrival, false}, {"restore", on_arrival, false},
	{"release", on_release, true},
};

static int read_all(char **ret_text, size_t *ret_len)
{
	_cleanup_free_ char *text = malloc(DOMAIN_MAX + 1);
	size_t n = 0;
	ssize_t r;

	if (!text)
		return -ENOMEM;
	do {
		r = read(STDIN_FILENO, text + n, DOMAIN_MAX + 1 - n);
		n += r > 0 ? (size_t)r : 0;
	} while (r > 0 || (r < 0 && errno == EINTR));
	*ret_text = steal(text);
	*ret_len = n;
	return 0;
}

static int run(const struct operation *op)
{
	_cleanup_free_ char *text = NULL;
	char *why = NULL;
	struct domain d;
	size_t len;
	int r = read_all(&text, &len);

	if (r < 0)
		return say(NULL, r, op->any);
	r = domain_read(text, len, &d, &why);
	if (r == 0 || op->any) {
		free(why);
		r = op->fn(&d);
	} else {
		r = say(why, r, op->fn == on_running);
	}
	domain_fini(&d);
	xmlCleanupParser();
	return r;
}

/* ---- by others than libvirt ---- */

static int become_vsock(const char *tenant)
{
	struct note n;
	int r = note_of_tenant(tenant, &n);

	if (r == 0)
		r = vsock_exec(&n);
	fprintf(stderr, "weft-hook: vsock device of %s: %s\n", tenant, strerror(-r));
	return 1;
}

static void resume_one(const struct note *n, void *arg)
{
	char *why = NULL;
	int r = n->ended ? register_remove(n, &why) : register_add(n, false, &why);

	if (n->ended && r == -ENOENT)
		r = 0;
	if (r == 0 && n->ended)
		note_forget(n);
	if (r < 0)
		(void)say(why, r, true);
}

static int usage(FILE *f, int status)
{
	fputs("usage: weft-hook NAME OPERATION SUBOPERATION EXTRA <DOMAIN.XML\n"
	      "Makes a GPU's share ready for a VM of libvirt's; see weft-hook(8).\n\n"
	      "  --vsock TENANT  become the vsock device of a VM that was made ready\n"
	      "  --resume        tell weftd, which has started, of all VMs\n"
	      "  --help\n"
	      "  --version\n",
	      f);
	return status;
}

static int option(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--vsock"))
		return become_vsock(argv[2]);
	if (argc == 2 && !strcmp(argv[1], "--resume")) {
		note_each(resume_one, NULL);
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "--help"))
		return usage(stdout, 0);
	if (argc == 2 && !strcmp(argv[1], "--version")) {
		printf("weft-hook %s\n", WEFT_VERSION);
		return 0;
	}
	return usage(stderr, EXIT_USAGE);
}

int main(int argc, char **argv)
{
	log_set_program("weft-hook");
	if (argc < 3 || !strncmp(argv[1], "--", 2))
		return option(argc, argv);
	for (unsigned i = 0; i < ARRAY_SIZE(operations); i++) {
		if (!strcmp(argv[2], operations[i].name))
			return run(&operations[i]);
	}
	return 0; /* of no matter to us */
}
