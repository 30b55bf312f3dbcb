/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration that sessions live by, kept in the store: a weftd that finds mistakes
 * in its files goes on with that, since its end would be theirs.
 */
#ifndef WEFT_BROKER_KEEP_CONFIG_H
#define WEFT_BROKER_KEEP_CONFIG_H

/* Has the text kept in place of the one before; NULL: an empty one. What goes wrong is
 * logged. Without a store nothing happens. */
void config_keep(const char *text);
/* Returns the text that the weftd before this one had kept, the caller's, or NULL: there
 * was none. Once. */
char *config_kept(void);

#endif
