/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes: tenants that were added, removed or given other limits at the control socket
 * since the configuration was read. They stand in a file of the run directory, so that a
 * weftd that follows one that was killed, or left, has them, too; an end in order removes
 * it.
 */
#ifndef WEFT_BROKER_CHANGES_H
#define WEFT_BROKER_CHANGES_H

struct conf;
struct json_object;

/* Reads the changes of the weftd before this one, if there are any, and makes them in c,
 * which was just read and is not complete. A change that cannot be made is named in the
 * log. Without a call of this nothing is noted. */
void changes_apply(struct conf *c);
/* Makes the changes that text tells of in c; -EBADMSG: it is none of ours. */
int changes_parse(struct conf *c, const char *text);

/* Note a tenant that was added, or given limits, with the keys of the request (NULL:
 * none), or removed. */
void changes_add(const char *tenant, struct json_object *set);
void changes_set(const char *tenant, struct json_object *set);
void changes_remove(const char *tenant);
/* The configuration was read again, and holds but for tenants that were added. */
void changes_reload(void);
/* Forgets all changes: this is the end. */
void changes_end(void);

#endif
