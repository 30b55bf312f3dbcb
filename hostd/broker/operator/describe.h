/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device, tenants and sessions as JSON objects, the caller's. Keys are spelt as in
 * weftd.conf and cgroup v2 wherever there is such a word: memory.current, memory.max.
 * Bytes, and microseconds. doc/control-protocol.md lists them.
 */
#ifndef WEFT_BROKER_DESCRIBE_H
#define WEFT_BROKER_DESCRIBE_H

struct broker;
struct json_object;
struct session_record;
struct tenant;
struct worker;

struct json_object *describe_device(const struct broker *b);
struct json_object *describe_tenant(struct tenant *t);
/* Worker of a session. */
struct json_object *describe_session(const struct worker *w);
struct json_object *describe_record(const struct session_record *h);

#endif
