/* SPDX-License-Identifier: Apache-2.0 */
/* A VM as a tenant of weftd, which is asked at its control socket. */
#ifndef WEFT_LIBVIRT_REGISTER_H
#define WEFT_LIBVIRT_REGISTER_H

#include "libvirt/domain.h"

struct json_object;
struct note;

/* Keys that weftd is asked for: a domain's, with its window's and whose they are. The
 * caller's; NULL: no memory. */
struct json_object *register_keys(const struct domain *d);

/*
 * Adds the tenant of a note, with the keys in it. One that is there for the same VM stays
 * as it is, but (renew) for a window of another size, when it is made anew, and for its
 * limits. Returns 0 or -errno and a sentence: the tenant is somebody else's, weftd does
 * not run, or what is asked for cannot be had.
 */
int register_add(const struct note *n, bool renew, char **ret_why);

/* Makes its limits those of the domain; what this says nothing of is as weftd.conf(5) has
 * it by default. Likewise. */
int register_set(const struct note *n, const struct gpu *g, char **ret_why);

/* Ends the tenant if it is this VM's, and waits for that. Returns -ENOENT, without a
 * sentence, if nobody has that name; else likewise. */
int register_remove(const struct note *n, char **ret_why);

/* Asks whether weftd is there. */
int register_ping(char **ret_why);

#endif
