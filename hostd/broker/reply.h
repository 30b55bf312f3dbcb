/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the control socket; the caller owns them. */
#ifndef WEFT_BROKER_REPLY_H
#define WEFT_BROKER_REPLY_H

#include "base/macros.h"

struct broker;
struct json_object;

/* {"ok": true}, to which more may be added. */
struct json_object *reply_ok(void);
/* {"ok": false, "error": a sentence, "errno": of error, a negative one}. */
struct json_object *reply_error(int error, const char *fmt, ...) _printf_(2, 3);
/* Error for a name (may be NULL) that is no tenant's. */
struct json_object *reply_no_tenant(struct broker *b, const char *name);
/* Error for a configuration that contradicts itself as it is now, or NULL. */
struct json_object *reply_contradiction(struct broker *b);

#endif
