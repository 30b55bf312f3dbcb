/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at a host for what keeps Weft from working. A check says what it found, and for
 * what is wrong what to type. All it reads is below a root, so that tests can make a host.
 */
#ifndef WEFT_TOOLS_DOCTOR_H
#define WEFT_TOOLS_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/macros.h"

struct conf;

enum finding {
	FOUND_OK,
	FOUND_HINT,  /* it works, but not as well as it could */
	FOUND_WRONG, /* it does not work */
	FOUND_NUM
};

struct doctor {
	const char *root;        /* "" for the host */
	const struct conf *conf; /* complete; NULL: it has mistakes */
	pid_t weftd;             /* 0: none answers */
	bool changes;            /* and this user may ask it for changes */
	/* Receives each finding; type (may be NULL) is what to do about it. */
	void (*say)(void *arg, enum finding what, const char *check, const char *text,
		    const char *type);
	void *arg;
};

/* doctor_look.c */
/* Formats and says a finding. */
void doctor_say(const struct doctor *d, enum finding what, const char *check,
		const char *type, const char *fmt, ...) _printf_(5, 6);
/* First bytes of a file below the root, without the line's end. Returns their number, or
 * -errno. */
int doctor_read(const struct doctor *d, const char *path, char *buf, size_t room);
bool doctor_exists(const struct doctor *d, const char *path);

/* doctor_host.c: the driver and what the host's kernel and services are like. */
void doctor_host(const struct doctor *d);
/* doctor_vms.c: virtual machines that run, their numbers, and libvirt. */
void doctor_vms(const struct doctor *d);
/* doctor_weftd.c: tenants' windows and sockets, and weftd's limits. */
void doctor_weftd(const struct doctor *d);

#endif
