/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket: who may ask, and who waits for which answer. */
#ifndef WEFT_BROKER_CONTROL_H
#define WEFT_BROKER_CONTROL_H

struct broker;
struct json_object;

int control_open(struct broker *b, const char *path);
void control_fini(struct broker *b);
/* Says who asks: "uid 0, pid 17". Good until the next call. */
const char *control_who(const void *client);
/* Takes over the answer. */
void control_answer(void *client, struct json_object *answer);

#endif
