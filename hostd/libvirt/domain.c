/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libxml/parser.h>

#include "base/fd.h"
#include "base/macros.h"
#include "libvirt/domain.h"
#include "libvirt/place.h"
#include "libvirt/sentence.h"

#define HOW_TO                                                                           \
	"virsh dumpxml --inactive VM | weftctl domain-xml --apply | virsh define "       \
	"/dev/stdin"

static bool is(const xmlNode *node, const char *name)
{
	return node->type == XML_ELEMENT_NODE && !node->ns &&
	       !strcmp((const char *)node->name, name);
}

xmlNode *domain_child(const xmlNode *parent, const char *name)
{
	for (xmlNode *c = parent ? parent->children : NULL; c; c = c->next) {
		if (is(c, name))
			return c;
	}
	return NULL;
}

char *domain_get(const xmlNode *node, const char *name)
{
	return node ? (char *)xmlGetNoNsProp((xmlNode *)node, (const xmlChar *)name)
		    : NULL;
}

/* Text of a child, the caller's; NULL: none. */
static char *child_text(const xmlNode *parent, const char *name)
{
	xmlNode *c = domain_child(parent, name);

	return c ? (char *)xmlNodeGetContent(c) : NULL;
}

uint64_t domain_size(const xmlNode *node, uint64_t each_bytes)
{
	_cleanup_free_ char *unit = domain_get(node, "unit"), *text = NULL;
	uint64_t n;

	text = node ? (char *)xmlNodeGetContent(node) : NULL;
	if (!text || (unit && gpu_unit_bytes(unit, &each_bytes) < 0))
		return 0;
	n = strtoull(text, NULL, 10);
	return __builtin_mul_overflow(n, each_bytes, &n) ? 0 : n;
}

void domain_name_tenant(struct domain *d)
{
	const char *name = d->uuid;

	if (*d->gpu.tenant)
		name = d->gpu.tenant;
	else if (!conf_name_error(d->name))
		name = d->name;
	snprintf(d->tenant, sizeof(d->tenant), "%s", name);
}

static int find_element(struct domain *d, char **ret_why)
{
	xmlNode *metadata = domain_child(d->root, "metadata");

	for (xmlNode *c = metadata ? metadata->children : NULL; c; c = c->next) {
		if (!gpu_is(c))
			continue;
		if (d->element) {
			*ret_why = sentence("<weft:gpu> is there twice: a VM has one "
					    "share");
			return -EINVAL;
		}
		d->element = c;
	}
	return d->element ? gpu_read(d->element, &d->gpu, ret_why) : 0;
}

/* As libvirt prints it. */
static bool is_uuid(const char *text)
{
	struct conf_tenant *probe = conf_tenant_new("probe");
	bool is = probe && conf_tenant_set(probe, "vm.uuid", text) == 0;

	conf_tenant_free(probe);
	return is;
}

static int read_head(struct domain *d, char **ret_why)
{
	_cleanup_free_ char *uuid = NULL;

	if (!d->root || !is(d->root, "domain")) {
		*ret_why = sentence("this is no domain of libvirt's: its root is no "
				    "<domain>");
		return -EINVAL;
	}
	d->name = child_text(d->root, "name");
	if (!d->name || !*d->name) {
		*ret_why = sentence("the domain has no <name>");
		return -EINVAL;
	}
	uuid = child_text(d->root, "uuid");
	if (uuid && is_uuid(uuid))
		memcpy(d->uuid, uuid, sizeof(d->uuid));
	return 0;
}

int domain_read(const char *text, size_t len, struct domain *ret, char **ret_why)
{
	xmlParserCtxt *p = xmlNewParserCtxt();
	const xmlError *e;
	int r = -EINVAL;

	*ret = (struct domain){0};
	*ret_why = NULL;
	if (!p)
		return -ENOMEM;
	if (len <= DOMAIN_MAX)
		ret->doc = xmlCtxtReadMemory(p, text, (int)len, NULL, NULL,
					     XML_PARSE_NONET | XML_PARSE_NOBLANKS |
						     XML_PARSE_NOERROR |
						     XML_PARSE_NOWARNING);
	e = xmlCtxtGetLastError(p);
	if (ret->doc) {
		ret->root = xmlDocGetRootElement(ret->doc);
		r = read_head(ret, ret_why);
	} else if (e && e->message) {
		*ret_why = sentence("the domain's XML, line %d: %.*s", e->line,
				    (int)strcspn(e->message, "\n"), e->message);
	} else {
		*ret_why = sentence("there is no XML of a domain, or it is too long");
	}
	xmlFreeParserCtxt(p);
	if (r == 0)
		r = find_element(ret, ret_why);
	if (r == 0 && ret->element)
		domain_name_tenant(ret);
	return r;
}

void domain_fini(struct domain *d)
{
	xmlFreeDoc(d->doc);
	free(d->name);
	*d = (struct domain){0};
}

char *domain_vsock_path(const struct domain *d, char *buf, size_t room)
{
	snprintf(buf, room, "%s/%s.vsock", PLACE_RUN, d->tenant);
	return buf;
}

/* ---- what it must have ---- */

/* One of QEMU's own arguments is there, or begins so. */
static bool has_argument(const struct domain *d, const char *begins)
{
	for (const xmlNode *c = d->root->children; c; c = c->next) {
		if (c->type != XML_ELEMENT_NODE || !c->ns ||
		    strcmp((const char *)c->ns->href, DOMAIN_QEMU_NS) != 0)
			continue;
		for (const xmlNode *a = c->children; a; a = a->next) {
			_cleanup_free_ char *value = a->type == XML_ELEMENT_NODE
							     ? domain_get(a, "value")
							     : NULL;

			if (value && !strncmp(value, begins, strlen(begins)))
				return true;
		}
	}
	return false;
}

static char *window_name(const struct domain *d, char *buf, size_t room)
{
	snprintf(buf, room, "weft-%s", d->tenant);
	return buf;
}

xmlNode *domain_shmem(const struct domain *d)
{
	char name[CONF_NAME_MAX + 8];
	xmlNode *devices = domain_child(d->root, "devices");

	window_name(d, name, sizeof(name));

	for (xmlNode *c = devices ? devices->children : NULL; c; c = c->next) {
		_cleanup_free_ char *is_named =
			is(c, "shmem") ? domain_get(c, "name") : NULL;

		if (is_named && !strcmp(is_named, name))
			return c;
	}
	return NULL;
}

/* Sizes are of libvirt's unit: bytes where there is none. */
static int check_window(struct domain *d, char **ret_why)
{
	char name[CONF_NAME_MAX + 8], value[24];
	xmlNode *shmem;
	uint64_t size;

	window_name(d, name, sizeof(name));
	shmem = domain_shmem(d);
	size = shmem ? domain_size(domain_child(shmem, "size"), 1) : 0;
	if (!shmem && !d->gpu.window_size)
		return 0;
	if (!shmem)
		*ret_why = sentence("<weft:window> is there, but no <shmem name='%s'> "
				    "among the devices: " HOW_TO,
				    name);
	else if (d->gpu.window_size && d->gpu.window_size != size)
		*ret_why = sentence("the window has %" PRIu64 " bytes in <weft:window>, "
				    "%" PRIu64 " in <shmem name='%s'>: " HOW_TO,
				    d->gpu.window_size, size, name);
	if (*ret_why)
		return -EINVAL;
	snprintf(value, sizeof(value), "%" PRIu64, size);
	return gpu_set(&d->gpu, "window.size", value, ret_why);
}

static bool memory_is_shared(const struct domain *d)
{
	const xmlNode *access =
		domain_child(domain_child(d->root, "memoryBacking"), "access");
	_cleanup_free_ char *mode = domain_get(access, "mode");

	return mode && !strcmp(mode, "shared");
}

int domain_check(struct domain *d, char **ret_why)
{
	char path[160], begins[240];

	*ret_why = NULL;
	domain_vsock_path(d, path, sizeof(path));
	snprintf(begins, sizeof(begins), "socket,id=" DOMAIN_VSOCK_ID ",path=%s", path);
	if (!has_argument(d, begins))
		*ret_why = sentence("no device of the domain's connects to %s: " HOW_TO,
				    path);
	else if (domain_child(domain_child(d->root, "devices"), "vsock"))
		*ret_why = sentence("<vsock> is there beside Weft's: a guest has one "
				    "vsock device, so remove it");
	else if (!memory_is_shared(d))
		*ret_why = sentence("the domain's memory is not shared: it wants "
				    "<memoryBacking><source type='memfd'/><access "
				    "mode='shared'/></memoryBacking>");
	return *ret_why ? -EINVAL : check_window(d, ret_why);
}
