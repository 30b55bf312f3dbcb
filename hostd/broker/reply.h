/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the control socket; the caller owns them. */
#ifndef WEFT_BROKER_REPLY_H
#define WEFT_BROKER_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

struct broker;
struct conf_tenant;
struct json_object;

/* {"ok": true}, to which more may be added. */
struct json_object *reply_ok(void);
/* {"ok": false, "error": a sentence, "errno": of error, a negative one}. */
struct json_object *reply_error(int error, const char *fmt, ...) _printf_(2, 3);
/* Members of an object. Numbers above 2^53, which not every reader's numbers can hold, are
 * text; a limit that is none is "max", as in a cgroup; NULL adds nothing. */
void reply_u64(struct json_object *o, const char *key, uint64_t v);
void reply_limit(struct json_object *o, const char *key, uint64_t v);
void reply_str(struct json_object *o, const char *key, const char *v);
void reply_bool(struct json_object *o, const char *key, bool v);
/* Error for a name (may be NULL) that is no tenant's. */
struct json_object *reply_no_tenant(struct broker *b, const char *name);
/* Error for a configuration that contradicts itself as it is now, or NULL. */
struct json_object *reply_contradiction(struct broker *b);

#endif
