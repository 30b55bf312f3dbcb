/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants come and go: what each of them is made of is put together here. */
#ifndef WEFT_BROKER_TENANTS_H
#define WEFT_BROKER_TENANTS_H

struct broker;
struct conf_tenant;
struct tenant;

/* Makes the tenant, its socket and its window. Returns 0, -EEXIST or -errno; b->why then
 * says why. */
int tenant_new(struct broker *b, const struct conf_tenant *ct, struct tenant **ret_t);
/* Tells operators "tenant.added" or the like, and by whom. */
void tenant_post(const struct tenant *t, const char *type, const char *by);
/* Removes the files that were made for a tenant which is about to be removed. */
void tenant_remove_files(struct tenant *t);
/* Ends a tenant and its sessions, without waiting for that; calls done(arg), if any, when
 * all has ended. */
void tenant_remove(struct tenant *t, void (*done)(void *arg), void *arg);
/* Removes all tenants; after the last session. */
void tenants_fini(struct broker *b);

#endif
