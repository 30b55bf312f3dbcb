/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of tenants, changed while their programs run. */
#ifndef WEFT_BROKER_LIMITS_H
#define WEFT_BROKER_LIMITS_H

struct conf_tenant;
struct tenant;

/* Changes the limits that may change while it runs, and logs which, and by whom. */
void limits_change(struct tenant *t, const struct conf_tenant *to, const char *by);

#endif
