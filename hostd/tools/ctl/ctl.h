/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weftctl's commands: one noun a file, each with the functions that its table
 * (tools/weftctl.c) names. A command gets its words and returns the exit status, or
 * CTL_USAGE where its words make no sense.
 */
#ifndef WEFT_TOOLS_CTL_H
#define WEFT_TOOLS_CTL_H

#include <stdbool.h>
#include <stdint.h>

#include <json-c/json.h>

#include "base/macros.h"
#include "tools/client.h"
#include "tools/table.h"

#define CTL_USAGE (-1)

/* Options of the command line, for all commands. */
struct ctl {
	const char *control; /* path; NULL: where a daemon usually is */
	bool json, csv, bytes;
	bool follow, wait, undo, once, apply, memory;
	const char *sort, *delay;     /* NULL: as usual */
	const char *after;            /* a number; NULL: all that there is */
	const char *output, *seconds; /* NULL: as usual */
};

/* ---- asking; ask.c ---- */

/*
 * Asks the daemon and takes over the request. Returns the answer, the caller's, if it is
 * to be printed for people. Else NULL: *ret_status is the exit status, and what is to be
 * said, the answer as JSON or why there is none, has been printed.
 */
struct json_object *ctl_ask(const struct ctl *ctl, struct json_object *request,
			    int *ret_status);
/* As ctl_ask(), but prints no answer, under --json either. */
struct json_object *ctl_answer(const struct ctl *ctl, struct json_object *request,
			       int *ret_status);
/* Prints a sentence, or an object with it under --json. Returns 1, an exit status. */
int ctl_failed(const struct ctl *ctl, const char *fmt, ...) _printf_(2, 3);
/* {"cmd": cmd, "name": name} */
struct json_object *ctl_named(const char *cmd, const char *name);
/* {"cmd": cmd} and a session or tenant: digits only are a session's number. */
struct json_object *ctl_about(const char *cmd, const char *what);
/* Opens a connection for more than one answer. Returns 0, or an exit status: why there is
 * none has been printed. */
int ctl_open(const struct ctl *ctl, struct client *ret);
/* Ends a scope; see _cleanup_(). */
void ctl_putp(struct json_object **o);

/* ---- printing; show.c ---- */

/* True of keys that are bytes. */
bool ctl_is_size(const char *key);
/* Text of a member that is a size, as the options have it. Returns buf. */
const char *ctl_size(const struct ctl *ctl, struct json_object *of, const char *key,
		     char *buf, size_t room);
/* Adds a member as a cell. */
void ctl_add_size(struct table *t, const struct ctl *ctl, struct json_object *of,
		  const char *key);
void ctl_add_number(struct table *t, struct json_object *of, const char *key);
void ctl_add_time(struct table *t, struct json_object *of, const char *key);
void ctl_add_text(struct table *t, struct json_object *of, const char *key);

/* ---- commands ---- */

/* list.c */
int ctl_list(const struct ctl *ctl, int argc, char **argv);
int ctl_info(const struct ctl *ctl, int argc, char **argv);
/* tenant.c */
int ctl_add(const struct ctl *ctl, int argc, char **argv);
int ctl_remove(const struct ctl *ctl, int argc, char **argv);
int ctl_reclaim(const struct ctl *ctl, int argc, char **argv);
/* keys.c */
int ctl_get(const struct ctl *ctl, int argc, char **argv);
int ctl_set(const struct ctl *ctl, int argc, char **argv);
/* Adds {"set": {KEY: VALUE...}} to a request out of words; -EINVAL if one is none. */
int ctl_keys(struct json_object *q, int argc, char **argv);
/* session.c */
int ctl_kill(const struct ctl *ctl, int argc, char **argv);
/* events.c */
int ctl_events(const struct ctl *ctl, int argc, char **argv);
/* trace.c */
int ctl_trace(const struct ctl *ctl, int argc, char **argv);
/* top.c */
int ctl_top(const struct ctl *ctl, int argc, char **argv);
/* doctor.c */
int ctl_doctor(const struct ctl *ctl, int argc, char **argv);
/* drain.c */
int ctl_drain(const struct ctl *ctl, int argc, char **argv);
/* domain_xml.c */
int ctl_domain_xml(const struct ctl *ctl, int argc, char **argv);
/* daemon.c */
int ctl_shutdown(const struct ctl *ctl, int argc, char **argv);

#endif
