/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/macros.h"
#include "libvirt/paste.h"
#include "libvirt/sentence.h"

/* A stage, and slices for a dozen programs. */
#define WINDOW_DEFAULT "256M"
/* Slots of the root bus: libvirt fills them from below, chip sets sit on the last. */
#define SLOT_FIRST 0x1cu
#define SLOT_LAST  0x04u

static const xmlChar *text(const char *s)
{
	return (const xmlChar *)s;
}

static void remove_node(xmlNode *node)
{
	xmlUnlinkNode(node);
	xmlFreeNode(node);
}

static xmlNode *child_or_new(xmlNode *parent, const char *name)
{
	xmlNode *c = domain_child(parent, name);

	return c ? c : xmlNewChild(parent, NULL, text(name), NULL);
}

int paste_start(const char *name, struct domain *ret, char **ret_why)
{
	static const char empty[] =
		"<domain xmlns:qemu='" DOMAIN_QEMU_NS "'><name>vm</name></domain>";
	const char *why = conf_name_error(name);
	int r = domain_read(empty, sizeof(empty) - 1, ret, ret_why);

	if (why)
		*ret_why = sentence("%s: %s", name, why);
	if (r < 0 || why)
		return r < 0 ? r : -EINVAL;
	free(ret->name);
	ret->name = strdup(name);
	xmlNodeSetContent(domain_child(ret->root, "name"), text(name));
	return ret->name ? 0 : -ENOMEM;
}

/* ---- QEMU's own arguments ---- */

static bool is_qemu(const xmlNode *node, const char *name)
{
	return node->type == XML_ELEMENT_NODE && node->ns &&
	       !strcmp((const char *)node->ns->href, DOMAIN_QEMU_NS) &&
	       !strcmp((const char *)node->name, name);
}

static xmlNode *find_arguments(const struct domain *d)
{
	for (xmlNode *c = d->root->children; c; c = c->next) {
		if (is_qemu(c, "commandline"))
			return c;
	}
	return NULL;
}

/* An option is ours if its value has our identifier; option and value go. */
static void remove_arguments(struct domain *d)
{
	xmlNode *line = find_arguments(d), *next, *option = NULL;

	for (xmlNode *c = line ? line->children : NULL; c; c = next) {
		_cleanup_free_ char *value = NULL;

		next = c->next;
		if (!is_qemu(c, "arg"))
			continue;
		value = domain_get(c, "value");
		if (value && option && strstr(value, "=" DOMAIN_VSOCK_ID)) {
			remove_node(c);
			remove_node(option);
			option = NULL;
		} else {
			option = c;
		}
	}
	if (line && !line->children)
		remove_node(line);
}

static void add_argument(xmlNode *line, const char *value)
{
	xmlNode *arg = xmlNewChild(line, line->ns, text("arg"), NULL);

	if (arg)
		xmlNewProp(arg, text("value"), text(value));
}

/* ---- the PCI address ---- */

static unsigned number(const xmlNode *node, const char *name)
{
	_cleanup_free_ char *value = domain_get(node, name);

	return value ? (unsigned)strtoul(value, NULL, 0) : 0;
}

/* Bits of the slots of the root bus that have something. */
static uint32_t used_slots(const xmlNode *node)
{
	uint32_t used = 0;

	for (const xmlNode *c = node->children; c; c = c->next) {
		_cleanup_free_ char *type = NULL;

		if (c->type != XML_ELEMENT_NODE)
			continue;
		type = domain_get(c, "type");
		if (!strcmp((const char *)c->name, "address") && type &&
		    !strcmp(type, "pci") && !number(c, "bus") && !number(c, "domain"))
			used |= 1u << (number(c, "slot") & 31);
		used |= used_slots(c);
	}
	return used;
}

/* Name of the root bus: libvirt's machine without a name is the old one. NULL: none. */
static const char *root_bus(const struct domain *d)
{
	const xmlNode *type = domain_child(domain_child(d->root, "os"), "type");
	_cleanup_free_ char *machine = domain_get(type, "machine");

	if (!type)
		return "pcie.0"; /* to be pasted, into a domain of today */
	if (!machine || !strcmp(machine, "pc") || !strncmp(machine, "pc-i440fx", 9))
		return "pci.0";
	return !strcmp(machine, "q35") || !strncmp(machine, "pc-q35", 6) ? "pcie.0"
									 : NULL;
}

static int add_vsock(struct domain *d, char **ret_why)
{
	xmlNs *ns = xmlSearchNsByHref(d->doc, d->root, text(DOMAIN_QEMU_NS));
	char path[160], value[256];
	const char *bus = root_bus(d);
	uint32_t used = used_slots(d->root);
	unsigned slot = SLOT_FIRST;
	xmlNode *line;

	while (used >> slot & 1 && slot > SLOT_LAST)
		slot--;
	if (!bus || used >> slot & 1) {
		*ret_why = sentence(bus ? "the root bus of the domain has no free slot"
					: "the domain's machine has no PCI bus that is "
					  "known here: use q35");
		return -EINVAL;
	}
	if (!ns)
		ns = xmlNewNs(d->root, text(DOMAIN_QEMU_NS), text("qemu"));
	line = find_arguments(d);
	if (!line)
		line = xmlNewChild(d->root, ns, text("commandline"), NULL);
	if (!line)
		return -ENOMEM;
	domain_vsock_path(d, path, sizeof(path));
	add_argument(line, "-chardev");
	snprintf(value, sizeof(value), "socket,id=" DOMAIN_VSOCK_ID ",path=%s", path);
	add_argument(line, value);
	add_argument(line, "-device");
	snprintf(value, sizeof(value),
		 "vhost-user-vsock-pci,chardev=" DOMAIN_VSOCK_ID ",bus=%s,addr=0x%x", bus,
		 slot);
	add_argument(line, value);
	return 0;
}

/* ---- memory and window ---- */

static void share_memory(struct domain *d)
{
	xmlNode *backing = child_or_new(d->root, "memoryBacking");
	xmlNode *access = child_or_new(backing, "access");
	xmlNode *source = domain_child(backing, "source");

	if (!source && !domain_child(backing, "hugepages"))
		source = xmlNewChild(backing, NULL, text("source"), NULL);
	if (source) {
		_cleanup_free_ char *type = domain_get(source, "type");

		if (!type || !strcmp(type, "anonymous"))
			xmlSetProp(source, text("type"), text("memfd"));
	}
	if (access)
		xmlSetProp(access, text("mode"), text("shared"));
}

static void remove_window(struct domain *d)
{
	xmlNode *shmem = domain_shmem(d);

	if (shmem)
		remove_node(shmem);
}

static int add_window(struct domain *d)
{
	xmlNode *devices = child_or_new(d->root, "devices");
	xmlNode *shmem = xmlNewChild(devices, NULL, text("shmem"), NULL), *model, *size;
	char name[CONF_NAME_MAX + 8], bytes[24];

	if (!shmem)
		return -ENOMEM;
	snprintf(name, sizeof(name), "weft-%s", d->tenant);
	snprintf(bytes, sizeof(bytes), "%" PRIu64, d->gpu.window_size >> 20);
	xmlNewProp(shmem, text("name"), text(name));
	model = xmlNewChild(shmem, NULL, text("model"), NULL);
	size = xmlNewChild(shmem, NULL, text("size"), text(bytes));
	if (!model || !size)
		return -ENOMEM;
	xmlNewProp(model, text("type"), text("ivshmem-plain"));
	xmlNewProp(size, text("unit"), text("M"));
	return 0;
}

/* Size of the window: as the element says, as the domain had, or as suits most. */
static int choose_window(struct domain *d, char **ret_why)
{
	uint64_t had = domain_size(domain_child(domain_shmem(d), "size"), 1);
	uint64_t size = d->gpu.window_size ? d->gpu.window_size : had;
	char value[24];
	int r;

	snprintf(value, sizeof(value), "%" PRIu64, size);
	r = gpu_set(&d->gpu, "window.size", size ? value : WINDOW_DEFAULT, ret_why);
	size = d->gpu.window_size;
	if (r == 0 && (size < WINDOW_MIN || size & (size - 1))) {
		*ret_why = sentence("window.size must be a power of two, 16M or more");
		r = -EINVAL;
	}
	return r;
}

/* ---- all of it ---- */

void paste_remove(struct domain *d)
{
	remove_arguments(d);
	domain_name_tenant(d);
	remove_window(d);
	if (d->element)
		remove_node(d->element);
	d->element = NULL;
}

int paste_apply(struct domain *d, char **ret_why)
{
	int r;

	*ret_why = NULL;
	domain_name_tenant(d);
	if (!*d->tenant) {
		*ret_why = sentence("\"%s\" is no name for a tenant, and the domain has "
				    "no UUID: give it tenant=NAME",
				    d->name);
		return -EINVAL;
	}
	r = choose_window(d, ret_why);
	if (r < 0)
		return r;
	paste_remove(d);
	d->element = gpu_write(&d->gpu, child_or_new(d->root, "metadata"));
	share_memory(d);
	r = d->element ? add_window(d) : -ENOMEM;
	return r < 0 ? r : add_vsock(d, ret_why);
}

int paste_print(const struct domain *d, FILE *f)
{
	xmlChar *out = NULL;
	int len;

	xmlDocDumpFormatMemoryEnc(d->doc, &out, &len, "UTF-8", 1);
	if (!out)
		return -ENOMEM;
	/* Without the first line: what is pasted is a part. */
	fputs(strchr((char *)out, '\n') + 1, f);
	xmlFree(out);
	return 0;
}
