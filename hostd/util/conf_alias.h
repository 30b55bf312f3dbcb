/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys and names that users of other ways to share a GPU know, as templates: each sets keys
 * of our own, which is all that remains of it, but for the name of a profile. What it asks
 * for beyond that is refused. weftd.conf(5) has the table.
 */
#ifndef WEFT_UTIL_CONF_ALIAS_H
#define WEFT_UTIL_CONF_ALIAS_H

#include <stdbool.h>

struct conf_tenant;

/* Whether there is such a key. */
bool conf_alias_known(const char *key);
/* Sets what the key stands for. Returns 0, -ENOENT (no such key), -EINVAL, -ERANGE, or
 * -EOPNOTSUPP: Weft cannot do that. */
int conf_alias_set(struct conf_tenant *t, const char *key, const char *value);
/* Says why not; malloced. NULL: no alias's error, or no memory. */
char *conf_alias_error(const char *key, const char *value, int error);

#endif
