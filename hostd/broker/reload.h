/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration, read again. */
#ifndef WEFT_BROKER_RELOAD_H
#define WEFT_BROKER_RELOAD_H

struct broker;
struct conf;

/* Reads the configuration again, as somebody wanted; what is wrong with it is logged. */
void reload(struct broker *b, const char *by);
/* Logs what conf_check() says. Returns how much is wrong. */
unsigned reload_report(const struct conf *c, const char *file);

#endif
