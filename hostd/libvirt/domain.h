/* SPDX-License-Identifier: Apache-2.0 */
/* A libvirt domain's XML: what Weft has to know of it, and what it must have. */
#ifndef WEFT_LIBVIRT_DOMAIN_H
#define WEFT_LIBVIRT_DOMAIN_H

#include <stdbool.h>
#include <stddef.h>

#include <libxml/tree.h>

#include "libvirt/element.h"

#define DOMAIN_QEMU_NS  "http://libvirt.org/schemas/domain/qemu/1.0"
#define DOMAIN_UUID_LEN 36
/* Longer is no domain: libvirt's have some KiB. */
#define DOMAIN_MAX (4u << 20)
/* As weftd has it (util/conf_check.c). */
#define WINDOW_MIN (16ull << 20)
/* The name of our character device and our PCI device in QEMU's arguments. */
#define DOMAIN_VSOCK_ID "weft-vsock"

struct domain {
	xmlDoc *doc;
	xmlNode *root;
	char *name;
	char uuid[DOMAIN_UUID_LEN + 1]; /* "": it has none yet */
	xmlNode *element;               /* ours; NULL: none */
	struct gpu gpu;
	char tenant[CONF_NAME_MAX + 1]; /* its tenant at weftd; "" without our element */
};

/*
 * Reads a domain and, where it has one, our element. Returns 0, -EINVAL or -ENOMEM;
 * *ret_why is then a malloced sentence or NULL. domain_fini() copes with either.
 */
int domain_read(const char *text, size_t len, struct domain *ret, char **ret_why);
void domain_fini(struct domain *d);

/* Names its tenant: what the element says, else its own, else its UUID, whichever is
 * one. */
void domain_name_tenant(struct domain *d);

/*
 * Checks that it has the devices that belong to our element, and takes the window's size
 * from them where the element does not say it. Returns 0 or -EINVAL and a sentence.
 */
int domain_check(struct domain *d, char **ret_why);

/* The first child of that name, outside any name space; NULL: none. */
xmlNode *domain_child(const xmlNode *parent, const char *name);
/* An attribute, the caller's; NULL: none. */
char *domain_get(const xmlNode *node, const char *name);
/* Bytes of an element with text and a unit, of which each_bytes is the default; 0: none.
 */
uint64_t domain_size(const xmlNode *node, uint64_t each_bytes);

/* The window among its devices; NULL: none. */
xmlNode *domain_shmem(const struct domain *d);

/* Where its vsock device listens for QEMU; returns buf. */
char *domain_vsock_path(const struct domain *d, char *buf, size_t room);

#endif
