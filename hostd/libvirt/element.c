/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libxml/relaxng.h>

#include "base/fd.h"
#include "base/macros.h"
#include "libvirt/element.h"
#include "libvirt/sentence.h"
#include "util/conf.h"
#include "util/size.h"

#define CID_MIN 3u
#define CID_MAX 0xfffffffeu

static const struct attribute {
	const char *element, *name, *key;
	bool size; /* in units */
	bool text; /* no number */
} attributes[] = {
	{"memory", "min", "memory.min", true},
	{"memory", "low", "memory.low", true},
	{"memory", "high", "memory.high", true},
	{"memory", "max", "memory.max", true},
	{"memory", "weight", "memory.weight", false},
	{"compute", "weight", "compute.weight", false},
	{"compute", "priority", "compute.priority", false},
	{"compute", "latency", "compute.latency", false},
	{"compute", "max", "compute.max", .text = true},
	{"compute", "class", "compute.class", .text = true},
	{"kernel", "rewrite", "kernel.rewrite", .text = true},
	{"graphics", "mode", "graphics", .text = true},
	{"tpc", "set", "tpc.set", .text = true},
	{"tpc", "count", "tpc.count", .text = true},
	{"tpc", "exclusive", "tpc.exclusive", .text = true},
	{"gpc", "set", "gpc.set", .text = true},
	{"swap", "max", "memory.swap.max", true},
	{"host", "max", "host.max", true},
	{"worker", "max", "worker.memory.max", true},
	{"sessions", "max", "sessions.max", false},
	{"lanes", "max", "lanes.max", false},
	{"window", "size", "window.size", true},
	{"vsock", "cid", "cid", false},
};
static_assert(ARRAY_SIZE(attributes) <= GPU_KEYS_MAX, "all have a place");

/* libvirt's units, the largest first. */
static const struct {
	const char *name;
	uint64_t bytes;
} units[] = {
	{"TiB", 1ull << 40},
	{"GiB", 1ull << 30},
	{"MiB", 1ull << 20},
	{"KiB", 1ull << 10},
	{"b", 1},
	{"bytes", 1},
	{"T", 1ull << 40},
	{"G", 1ull << 30},
	{"M", 1ull << 20},
	{"K", 1ull << 10},
	{"k", 1ull << 10},
	{"KB", 1000},
	{"MB", 1000000},
	{"GB", 1000000000},
	{"TB", 1000000000000ull},
};

#define UNITS_WRITTEN 5     /* of them, the first so many */
#define UNIT_DEFAULT  "KiB" /* as libvirt's <memory> */

static const xmlChar *text(const char *s)
{
	return (const xmlChar *)s;
}

static bool is(const xmlChar *a, const char *b)
{
	return a && !strcmp((const char *)a, b);
}

bool gpu_is(const xmlNode *node)
{
	return node->type == XML_ELEMENT_NODE && is(node->name, "gpu") && node->ns &&
	       is(node->ns->href, GPU_NS);
}

/* NULL: there is none of that name. */
static char *get(const xmlNode *node, const char *name)
{
	return (char *)xmlGetNoNsProp((xmlNode *)node, text(name));
}

int gpu_unit_bytes(const char *unit, uint64_t *ret)
{
	for (unsigned i = 0; i < ARRAY_SIZE(units); i++) {
		if (!strcmp(units[i].name, unit)) {
			*ret = units[i].bytes;
			return 0;
		}
	}
	return -EINVAL;
}

/* A whole number, without sign or blank. */
static int parse_number(const char *value, uint64_t *ret)
{
	char *end;
	unsigned long long n;

	errno = 0;
	n = strtoull(value, &end, 10);
	if (*value < '0' || *value > '9' || *end || errno)
		return -EINVAL;
	*ret = n;
	return 0;
}

/* ---- what is wrong, in words ---- */

static const struct attribute *find_attribute(const xmlNode *element, const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(attributes); i++) {
		if (is(element->name, attributes[i].element) &&
		    !strcmp(name, attributes[i].name))
			return &attributes[i];
	}
	return NULL;
}

/* True if sizes stand in it, which have a unit. */
static bool has_unit(const char *element)
{
	for (unsigned i = 0; i < ARRAY_SIZE(attributes); i++) {
		if (!strcmp(element, attributes[i].element))
			return attributes[i].size;
	}
	return false;
}

/* Names that there are: of elements, or (element not NULL) of the attributes of one. */
static void list_names(const char *element, char *buf, size_t room)
{
	const char *last = element && has_unit(element) ? "unit" : "";
	size_t n = (size_t)snprintf(buf, room, "%s", last);

	for (unsigned i = 0; i < ARRAY_SIZE(attributes) && n < room; i++) {
		const char *name = element ? attributes[i].name : attributes[i].element;

		if ((element && strcmp(element, attributes[i].element) != 0) ||
		    (!element && !strcmp(last, name)))
			continue;
		n += (size_t)snprintf(buf + n, room - n, "%s%s", n ? ", " : "", name);
		last = name;
	}
}

/* Says what weftd finds wrong with the value of a key that is no size, or NULL. */
static char *explain_number(const struct attribute *a, const char *value)
{
	struct conf_tenant *t = conf_tenant_new("domain");
	_cleanup_free_ char *why = NULL;
	int r = t ? conf_tenant_set(t, a->key, value) : 0;

	if (r < 0 && r != -ENOENT)
		why = conf_error(a->key, value, r);
	conf_tenant_free(t);
	return why ? sentence("<weft:%s %s='%s'>: %s", a->element, a->name, value, why)
		   : NULL;
}

static char *explain_value(const xmlNode *element, const struct attribute *a,
			   const char *value)
{
	uint64_t n = 0;

	if (a->text)
		return explain_number(a, value);
	if (a->size && strcmp(value, "max") != 0 && parse_number(value, &n) < 0)
		return sentence("<weft:%s %s='%s'>: a whole number of units, or max; "
				"such as unit='GiB' %s='4'",
				a->element, a->name, value, a->name);
	if (!a->size && (parse_number(value, &n) < 0 || n > CID_MAX))
		return sentence("<weft:%s %s='%s'>: is no number, or too large",
				a->element, a->name, value);
	if (!strcmp(a->key, "cid") && n < CID_MIN)
		return sentence(
			"<weft:vsock cid='%s'>: is a number of 3 or more, another "
			"for each VM; without it one is given out",
			value);
	return a->size ? NULL : explain_number(a, value);
}

static char *explain_attribute(const xmlNode *element, const xmlAttr *at)
{
	const char *name = (const char *)at->name;
	_cleanup_free_ char *value = get(element, name);
	const struct attribute *a = find_attribute(element, name);
	char names[200];
	uint64_t n;

	if (at->ns || !value)
		return sentence("<weft:%s>: attributes of other name spaces mean nothing "
				"here",
				element->name);
	list_names((const char *)element->name, names, sizeof(names));
	if (!a && !strcmp(name, "unit") && !strncmp(names, "unit", 4))
		return gpu_unit_bytes(value, &n) == 0
			       ? NULL
			       : sentence("<weft:%s unit='%s'>: is none of b, KiB, MiB, "
					  "GiB, TiB",
					  element->name, value);
	if (!a)
		return sentence("<weft:%s> has no attribute %s (there are %s)",
				element->name, name, names);
	return explain_value(element, a, value);
}

static char *explain_element(const xmlNode *gpu, const xmlNode *e)
{
	char names[200];
	bool known = false;

	if (!e->ns || !is(e->ns->href, GPU_NS))
		return sentence("<%s> in <weft:gpu> is not of the name space " GPU_NS,
				e->name);
	for (unsigned i = 0; i < ARRAY_SIZE(attributes); i++)
		known |= is(e->name, attributes[i].element);
	list_names(NULL, names, sizeof(names));
	if (!known)
		return sentence("<weft:gpu> has no element <weft:%s> (there are %s)",
				e->name, names);
	for (const xmlNode *other = gpu->children; other != e; other = other->next) {
		if (other->type == XML_ELEMENT_NODE && is(other->name, (char *)e->name))
			return sentence("<weft:%s> is there twice", e->name);
	}
	for (const xmlAttr *a = e->properties; a; a = a->next) {
		char *why = explain_attribute(e, a);

		if (why)
			return why;
	}
	return NULL;
}

/* Says what the schema refuses, or NULL where only the schema's own words do. */
static char *explain(const xmlNode *gpu)
{
	for (const xmlAttr *a = gpu->properties; a; a = a->next) {
		_cleanup_free_ char *value = get(gpu, (const char *)a->name);
		const char *why = value ? conf_name_error(value) : NULL;

		if (!is(a->name, "tenant") || a->ns)
			return sentence(
				"<weft:gpu> has no attribute %s (there is tenant)",
				a->name);
		if (why)
			return sentence("<weft:gpu tenant='%s'>: %s", value, why);
	}
	for (const xmlNode *e = gpu->children; e; e = e->next) {
		char *why = NULL;

		if (e->type == XML_ELEMENT_NODE)
			why = explain_element(gpu, e);
		if (why)
			return why;
	}
	return NULL;
}

/* ---- the schema ---- */

static void keep_first(void *arg, xmlError *e)
{
	char **why = arg;

	if (!*why && e->message)
		*why = sentence("<weft:gpu>: %.*s", (int)strcspn(e->message, "\n"),
				e->message);
}

static void be_quiet(void *arg, xmlError *e)
{
}

static xmlRelaxNG *load_schema(void)
{
	xmlRelaxNGParserCtxt *p =
		xmlRelaxNGNewMemParserCtxt(weft_domain_rng, (int)weft_domain_rng_len);
	xmlRelaxNG *schema;

	if (!p)
		return NULL;
	xmlRelaxNGSetParserStructuredErrors(p, be_quiet, NULL);
	schema = xmlRelaxNGParse(p);
	xmlRelaxNGFreeParserCtxt(p);
	return schema;
}

/* Asks the schema about an element that is the root of its document. */
static int validate(xmlDoc *doc, char **ret_why)
{
	xmlRelaxNG *schema = load_schema();
	xmlRelaxNGValidCtxt *v = schema ? xmlRelaxNGNewValidCtxt(schema) : NULL;
	char *first = NULL;
	int r = -ENOMEM;

	if (v) {
		xmlRelaxNGSetValidStructuredErrors(v, keep_first, &first);
		r = xmlRelaxNGValidateDoc(v, doc) == 0 ? 0 : -EINVAL;
		xmlRelaxNGFreeValidCtxt(v);
	}
	xmlRelaxNGFree(schema);
	if (r == -EINVAL) {
		*ret_why = explain(xmlDocGetRootElement(doc));
		if (!*ret_why)
			*ret_why = steal(first);
	}
	free(first);
	return r;
}

static int check(xmlNode *element, char **ret_why)
{
	xmlDoc *doc = xmlNewDoc(text("1.0"));
	xmlNode *copy = doc ? xmlDocCopyNode(element, doc, 1) : NULL;
	int r = -ENOMEM;

	if (copy) {
		xmlDocSetRootElement(doc, copy);
		r = validate(doc, ret_why);
	}
	xmlFreeDoc(doc);
	return r;
}

/* ---- keys ---- */

static struct gpu_key *find_key(struct gpu *g, const char *key)
{
	for (unsigned i = 0; i < g->n_keys; i++) {
		if (!strcmp(g->keys[i].key, key))
			return &g->keys[i];
	}
	return NULL;
}

static const struct attribute *attribute_of(const char *key)
{
	for (unsigned i = 0; i < ARRAY_SIZE(attributes); i++) {
		if (!strcmp(attributes[i].key, key))
			return &attributes[i];
	}
	return NULL;
}

/* weftd's own checks of a value. */
static int check_key(const char *key, const char *value, char **ret_why)
{
	struct conf_tenant *probe = conf_tenant_new("probe");
	int r = probe ? conf_tenant_set(probe, key, value) : -ENOMEM;

	conf_tenant_free(probe);
	if (r < 0)
		*ret_why = conf_error(key, value, r);
	return r;
}

static int set_cid(struct gpu *g, const char *value, char **ret_why)
{
	uint64_t n;

	if (parse_number(value, &n) < 0 || n < CID_MIN || n > CID_MAX) {
		*ret_why = sentence("cid: \"%s\" is no number from %u to %u", value,
				    CID_MIN, CID_MAX);
		return -EINVAL;
	}
	g->cid = (uint32_t)n;
	return 0;
}

static void keep(struct gpu *g, const char *key, const char *value)
{
	struct gpu_key *k = find_key(g, key);

	if (!k && g->n_keys < GPU_KEYS_MAX)
		k = &g->keys[g->n_keys++];
	if (!k)
		return;
	k->key = key;
	snprintf(k->value, sizeof(k->value), "%s", value);
}

int gpu_set(struct gpu *g, const char *key, const char *value, char **ret_why)
{
	const struct attribute *a = attribute_of(key);
	char plain[TPCS_TEXT];
	uint64_t n = 0;
	int r;

	*ret_why = NULL;
	if (!strcmp(key, "tenant")) {
		const char *why = conf_name_error(value);

		if (why)
			*ret_why = sentence("tenant=%s: %s", value, why);
		else
			snprintf(g->tenant, sizeof(g->tenant), "%s", value);
		return why ? -EINVAL : 0;
	}
	if (!a) {
		*ret_why = sentence("a domain has no key \"%s\"", key);
		return -EINVAL;
	}
	r = !strcmp(key, "cid") ? set_cid(g, value, ret_why)
				: check_key(key, value, ret_why);
	if (r < 0)
		return r;
	/* Without a unit, so that it is the same whoever reads it. */
	if (a->size && size_parse(value, &n) == 0 && n != UINT64_MAX)
		snprintf(plain, sizeof(plain), "%" PRIu64, n);
	else
		snprintf(plain, sizeof(plain), "%s", value);
	keep(g, a->key, plain);
	if (!strcmp(key, "window.size"))
		g->window_size = n;
	return 0;
}

/* ---- reading ---- */

/* Bytes as text, or "max"; a number of something else as it is. */
static int convert(const xmlNode *e, const struct attribute *a, const char *value,
		   char *buf, size_t room, char **ret_why)
{
	_cleanup_free_ char *unit = get(e, "unit");
	uint64_t n, each;

	if (a->text && strlen(value) >= room)
		return -EINVAL;
	if (!a->size || !strcmp(value, "max")) {
		snprintf(buf, room, "%s", value);
		return 0;
	}
	if (parse_number(value, &n) < 0 ||
	    gpu_unit_bytes(unit ? unit : UNIT_DEFAULT, &each) < 0 ||
	    __builtin_mul_overflow(n, each, &n)) {
		*ret_why = sentence("<weft:%s %s='%s'>: is no whole number, or too large",
				    a->element, a->name, value);
		return -EINVAL;
	}
	snprintf(buf, room, "%" PRIu64, n);
	return 0;
}

static int read_attribute(struct gpu *g, const xmlNode *e, const struct attribute *a,
			  char **ret_why)
{
	_cleanup_free_ char *value = get(e, a->name);
	char *why = NULL, buf[TPCS_TEXT];
	int r;

	if (!value)
		return 0;
	r = convert(e, a, value, buf, sizeof(buf), ret_why);
	if (r < 0)
		return r;
	r = gpu_set(g, a->key, buf, &why);
	if (r < 0)
		*ret_why = sentence("<weft:%s %s='%s'>: %s", a->element, a->name, value,
				    why ? why : strerror(-r));
	free(why);
	return r;
}

static int read_all(struct gpu *g, const xmlNode *element, char **ret_why)
{
	_cleanup_free_ char *tenant = get(element, "tenant");
	int r = tenant ? gpu_set(g, "tenant", tenant, ret_why) : 0;

	for (const xmlNode *e = element->children; e && r == 0; e = e->next) {
		for (unsigned i = 0; i < ARRAY_SIZE(attributes) && r == 0; i++) {
			if (e->type == XML_ELEMENT_NODE &&
			    is(e->name, attributes[i].element))
				r = read_attribute(g, e, &attributes[i], ret_why);
		}
	}
	return r;
}

int gpu_read(xmlNode *element, struct gpu *ret, char **ret_why)
{
	struct gpu g = {0};
	int r;

	*ret_why = NULL;
	r = check(element, ret_why);
	if (r == 0)
		r = read_all(&g, element, ret_why);
	if (r == 0)
		*ret = g;
	return r;
}

const char *gpu_value(const struct gpu *g, const char *key)
{
	const struct gpu_key *k = find_key((struct gpu *)g, key);

	return k ? k->value : NULL;
}

/* ---- writing ---- */

/* The largest unit in which all sizes of an element are whole. */
static unsigned common_unit(const struct gpu *g, const char *element)
{
	unsigned unit = 0;
	uint64_t n;

	for (unsigned i = 0; i < g->n_keys; i++) {
		const struct attribute *a = attribute_of(g->keys[i].key);

		if (!a->size || strcmp(a->element, element) != 0 ||
		    parse_number(g->keys[i].value, &n) < 0)
			continue;
		while (unit + 1 < UNITS_WRITTEN && n % units[unit].bytes)
			unit++;
	}
	return unit;
}

static void write_key(xmlNode *e, const struct attribute *a, const char *value,
		      unsigned unit)
{
	char buf[24];
	uint64_t n;

	if (a->size && parse_number(value, &n) == 0) {
		snprintf(buf, sizeof(buf), "%" PRIu64, n / units[unit].bytes);
		if (!xmlHasProp(e, text("unit")))
			xmlNewProp(e, text("unit"), text(units[unit].name));
		xmlNewProp(e, text(a->name), text(buf));
	} else {
		xmlNewProp(e, text(a->name), text(value));
	}
}

/* One element with all of its attributes that are set; none if none is. */
static void write_element(const struct gpu *g, xmlNode *gpu, const char *name)
{
	unsigned unit = common_unit(g, name);
	xmlNode *e = NULL;

	for (unsigned i = 0; i < ARRAY_SIZE(attributes); i++) {
		const struct gpu_key *k = find_key((struct gpu *)g, attributes[i].key);

		if (!k || strcmp(attributes[i].element, name) != 0)
			continue;
		if (!e)
			e = xmlNewChild(gpu, gpu->ns, text(name), NULL);
		if (!e)
			return;
		write_key(e, &attributes[i], k->value, unit);
	}
}

xmlNode *gpu_write(const struct gpu *g, xmlNode *parent)
{
	xmlNode *gpu = xmlNewChild(parent, NULL, text("gpu"), NULL);
	xmlNs *ns = gpu ? xmlNewNs(gpu, text(GPU_NS), text("weft")) : NULL;
	const char *last = "";

	if (!ns)
		return NULL;
	xmlSetNs(gpu, ns);
	if (*g->tenant)
		xmlNewProp(gpu, text("tenant"), text(g->tenant));
	for (unsigned i = 0; i < ARRAY_SIZE(attributes); i++) {
		if (strcmp(last, attributes[i].element) != 0)
			write_element(g, gpu, attributes[i].element);
		last = attributes[i].element;
	}
	return gpu;
}
