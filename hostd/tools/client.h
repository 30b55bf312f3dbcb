/* SPDX-License-Identifier: Apache-2.0 */
/* The tools' end of weftd's control socket. */
#ifndef WEFT_TOOLS_CLIENT_H
#define WEFT_TOOLS_CLIENT_H

#include <stdint.h>
#include <stdio.h>

#include <json-c/json.h>

/* How answers are printed for programs: paths as they are. */
#define CLIENT_JSON (JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE)

struct client {
	int fd;
	struct json_tokener *tok;
	char buf[4096]; /* read, and from at on not looked at */
	size_t at, len;
};

/*
 * Connects to a control socket, or (path NULL) to that of the system's weftd, else of the
 * user's own, which nobody else may have made. Returns 0 or -errno; *ret_why is then a
 * malloced sentence, the caller's, or NULL. -EACCES: there is one, for others.
 */
int client_open(struct client *c, const char *path, char **ret_why);
void client_close(struct client *c);

/*
 * Sends a request (which it takes over) and waits for the answer, the caller's. Returns
 * 0, -EREMOTEIO (weftd said no: the answer has "error"), -EPROTO or -errno.
 */
int client_ask(struct client *c, struct json_object *request, struct json_object **ret);

/* Waits for one more object, the caller's: after a request that has many answers. Returns
 * 0, -ENODATA (weftd has closed), -EPROTO or -errno. */
int client_next(struct client *c, struct json_object **ret);

/* After "shutdown": waits until the daemon has closed. Returns 0, -ETIMEDOUT or -errno.
 */
int client_wait_end(struct client *c);

/* Words for a failure: weftd's own, or why it could not answer. */
const char *client_error(int error, struct json_object *answer);

/* A request {"cmd": cmd}. */
struct json_object *client_request(const char *cmd);

/* Members of an answer; 0 or "" if missing. "max" is UINT64_MAX; numbers that are text,
 * since they are above 2^53, are read. */
uint64_t json_u64(struct json_object *o, const char *key);
const char *json_str(struct json_object *o, const char *key);
struct json_object *json_get(struct json_object *o, const char *key);
/* How many there are in a list; 0 for what is none. */
size_t json_count(struct json_object *list);

/* A table of what was refused, out of an answer to "info"; nothing if there is nothing.
 */
void print_refused(FILE *f, struct json_object *a);
/* Prints the kernels that an answer has, and what became of them; nothing if there are none. */
void print_kernels(FILE *f, struct json_object *a);

/* Microseconds as "1.25 s", "310 ms". Returns buf. */
char *time_format(uint64_t us, char *buf, size_t room);

#endif
