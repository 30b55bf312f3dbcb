/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the control socket, and answers; weftd(8) lists them. */
#ifndef WEFT_BROKER_REQUEST_H
#define WEFT_BROKER_REQUEST_H

struct broker;
struct json_object;

/* Values of a tenant as they are now, and changing some of them; request_keys.c. */
struct json_object *request_tenant_get(struct broker *b, struct json_object *q,
				       void *client);
struct json_object *request_tenant_set(struct broker *b, struct json_object *q,
				       void *client);
/* {"ok": false, "error": a sentence, "errno": of error, a negative one}. */
__attribute__((format(printf, 2, 3))) struct json_object *reply_error(int error,
								      const char *fmt,
								      ...);
/* The same for a name (may be NULL) that is no tenant's. */
struct json_object *reply_no_tenant(struct broker *b, const char *name);
/* What is wrong with the configuration as it is now, or NULL. */
struct json_object *reply_contradiction(struct broker *b);
/* Answers one request; the caller owns the answer. NULL: control_answer() will come. */
struct json_object *request_handle(struct broker *b, struct json_object *request,
				   void *client);

#endif
