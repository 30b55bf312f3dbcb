/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes in weft's run directory of the VMs that the hook has made ready: which domain has
 * which tenant and context identifier, and what was asked for. They go with the VM, and
 * all of them when the host boots.
 */
#ifndef WEFT_LIBVIRT_NOTE_H
#define WEFT_LIBVIRT_NOTE_H

#include <stdint.h>

#include <json-c/json.h>

#include "libvirt/domain.h"

struct note {
	char tenant[CONF_NAME_MAX + 1];
	char uuid[DOMAIN_UUID_LEN + 1]; /* the domain's */
	char *domain;                   /* its name */
	uint32_t cid;
	bool ended;              /* the VM has; weftd could not be told */
	struct json_object *set; /* keys of weftd.conf */
};

/* Path of a tenant's file with that suffix; returns buf. */
char *note_path(const char *tenant, const char *suffix, char *buf, size_t room);

/*
 * Notes a domain under our lock: finds a free context identifier, and refuses what
 * another domain has. One that is noted already keeps what it has. Returns 0 or -errno
 * and a sentence. note_fini() copes with either.
 */
int note_take(const struct domain *d, struct note *ret, char **ret_why);

/* The note of a tenant, or of a domain's UUID. Returns 0, -ENOENT or -errno. */
int note_of_tenant(const char *tenant, struct note *ret);
int note_of_uuid(const char *uuid, struct note *ret);

/* Writes it anew, with other keys. Returns 0 or -errno. */
int note_write(const struct note *n);

/* Forgets it; then there is none of that tenant. */
void note_forget(const struct note *n);
/* Removes one of a domain that somebody did not finish writing. */
void note_discard(const char *uuid);
/* Removes the files that stood beside it. */
void note_clear(const struct note *n);

/* Calls fn for each note. */
void note_each(void (*fn)(const struct note *n, void *arg), void *arg);

void note_fini(struct note *n);

#endif
