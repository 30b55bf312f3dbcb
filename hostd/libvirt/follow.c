/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weft-libvirt: follows what is said of VMs while they run.
 *
 * libvirt calls no hook when a running domain's metadata change (virsh metadata --live),
 * but tells who listens. The limits of that domain's tenant become what the element says
 * now. After libvirtd or weftd has come back, all domains are looked at once, and what
 * those that do not run have left is cleared away.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>

#include "base/fd.h"
#include "base/log.h"
#include "libvirt/domain.h"
#include "libvirt/note.h"
#include "libvirt/register.h"
#include "libvirt/release.h"
#include "util/notify.h"

#define EXIT_USAGE  64
#define URI         "qemu:///system"
#define PAUSE_S     2 /* before libvirtd is asked again */
#define KEEPALIVE_S 5
#define KEEPALIVE_N 3

static volatile sig_atomic_t ends;
static bool lost; /* the connection; of the event loop's thread, the only one */

static void on_signal(int number)
{
	ends = 1;
}

/* Only a VM that was made ready, and only what the element says differently. */
static void apply(const struct domain *d)
{
	char *why = NULL;
	struct note n;
	struct json_object *set;
	int r = note_of_uuid(d->uuid, &n);

	if (r < 0)
		return;
	set = register_keys(d);
	if (!set || json_object_equal(set, n.set)) {
		json_object_put(set);
		note_fini(&n);
		return;
	}
	r = register_set(&n, &d->gpu, &why);
	if (r < 0) {
		log_error("domain %s: its limits stay as they are: %s", d->name,
			  why ? why : strerror(-r));
		json_object_put(set);
	} else {
		log_info("domain %s: limits are what its metadata say", d->name);
		json_object_put(n.set);
		n.set = set;
		(void)note_write(&n);
	}
	free(why);
	note_fini(&n);
}

static void look_at(virDomainPtr dom)
{
	_cleanup_free_ char *text = virDomainGetXMLDesc(dom, 0), *why = NULL;
	struct domain d;

	if (!text)
		return;
	if (domain_read(text, strlen(text), &d, &why) < 0)
		log_error("domain %s: its limits stay as they are: %s",
			  virDomainGetName(dom), why ? why : "out of memory");
	else if (d.element && domain_check(&d, &why) == 0)
		apply(&d);
	else if (why)
		log_error("domain %s: its limits stay as they are: %s", d.name, why);
	domain_fini(&d);
}

/* A domain that does not run has no tenant: a change counts at its next start. */
static void on_metadata(virConnectPtr conn, virDomainPtr dom, int type, const char *uri,
			void *arg)
{
	if (type == VIR_DOMAIN_METADATA_ELEMENT && uri && !strcmp(uri, GPU_NS) &&
	    virDomainIsActive(dom) == 1)
		look_at(dom);
}

static void look_at_all(virConnectPtr conn)
{
	virDomainPtr *list = NULL;
	int n = virConnectListAllDomains(conn, &list, VIR_CONNECT_LIST_DOMAINS_ACTIVE);

	for (int i = 0; i < n; i++) {
		look_at(list[i]);
		virDomainFree(list[i]);
	}
	free(list);
}

static bool runs(virConnectPtr conn, const char *uuid)
{
	virDomainPtr dom = virDomainLookupByUUIDString(conn, uuid);
	bool gone = !dom ? virGetLastErrorCode() == VIR_ERR_NO_DOMAIN
			 : virDomainIsActive(dom) == 0;

	if (dom)
		virDomainFree(dom);
	return !gone;
}

/* A libvirtd that dies while it starts or ends a VM calls no hook for it afterwards. */
static void clear_one(const struct note *n, void *conn)
{
	char *why = NULL;
	int r;

	if (n->ended || runs(conn, n->uuid))
		return;
	log_info("domain %s: does not run, what it was given is taken back", n->domain);
	r = release(n->uuid, &why);
	if (r < 0)
		log_error("domain %s: %s", n->domain, why ? why : strerror(-r));
	free(why);
}

static void on_close(virConnectPtr conn, int reason, void *arg)
{
	lost = true;
}

static void ignore(void *arg, virErrorPtr e)
{
}

/* A signal may come between a look at "ends" and the wait: it does not last for ever. */
static void on_tick(int timer, void *arg)
{
}

/* As long as libvirtd is there. */
static void follow(virConnectPtr conn)
{
	lost = false;
	if (virConnectSetKeepAlive(conn, KEEPALIVE_S, KEEPALIVE_N) < 0 ||
	    virConnectRegisterCloseCallback(conn, on_close, NULL, NULL) < 0 ||
	    virConnectDomainEventRegisterAny(
		    conn, NULL, VIR_DOMAIN_EVENT_ID_METADATA_CHANGE,
		    VIR_DOMAIN_EVENT_CALLBACK(on_metadata), NULL, NULL) < 0) {
		log_error("libvirt tells of no changes: %s", virGetLastErrorMessage());
		return;
	}
	log_info("following the domains of " URI);
	look_at_all(conn);
	note_each(clear_one, conn);
	notify_manager("READY=1");
	while (!ends && !lost)
		virEventRunDefaultImpl();
}

static int usage(FILE *f, int status)
{
	fputs("usage: weft-libvirt\n"
	      "Has a running VM's limits follow its domain's metadata; see "
	      "weft-hook(8).\n\n"
	      "  --help\n"
	      "  --version\n",
	      f);
	return status;
}

int main(int argc, char **argv)
{
	struct sigaction sa = {.sa_handler = on_signal};

	log_set_program("weft-libvirt");
	if (argc == 2 && !strcmp(argv[1], "--help"))
		return usage(stdout, 0);
	if (argc == 2 && !strcmp(argv[1], "--version")) {
		printf("weft-libvirt %s\n", WEFT_VERSION);
		return 0;
	}
	if (argc > 1)
		return usage(stderr, EXIT_USAGE);
	if (!getenv("WEFT_LOG"))
		log_set_level(LOG_LVL_INFO);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	virSetErrorFunc(NULL, ignore);
	if (virEventRegisterDefaultImpl() < 0 ||
	    virEventAddTimeout(1000, on_tick, NULL, NULL) < 0)
		return 1;
	for (bool told = false; !ends;) {
		virConnectPtr conn = virConnectOpen(URI);

		if (conn)
			follow(conn);
		else if (!told)
			log_warning("no libvirtd at " URI " yet: %s",
				    virGetLastErrorMessage());
		told = !conn;
		if (conn)
			virConnectClose(conn);
		if (!ends)
			sleep(PAUSE_S);
	}
	return 0;
}
