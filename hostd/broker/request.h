/* SPDX-License-Identifier: Apache-2.0 */
/* Requests at the control socket; weftd(8) lists them. */
#ifndef WEFT_BROKER_REQUEST_H
#define WEFT_BROKER_REQUEST_H

struct broker;
struct json_object;
struct tenant;

/* Values of a tenant as they are now, and changing some of them; request_keys.c. */
struct json_object *request_tenant_get(struct broker *b, struct json_object *q,
				       void *client);
struct json_object *request_tenant_set(struct broker *b, struct json_object *q,
				       void *client);
/* Adds all keys of a tenant to o, as they are now. */
void keys_describe(struct tenant *t, struct json_object *o);
/* Answers one request; the caller owns the answer. NULL: control_answer() will come. */
struct json_object *request_handle(struct broker *b, struct json_object *q, void *client);

#endif
