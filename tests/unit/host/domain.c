/* SPDX-License-Identifier: Apache-2.0 */
/* A domain of libvirt's: our element, what is refused of it, and what is put in. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libvirt/domain.h"
#include "libvirt/paste.h"

#define UUID "4a2f9b9a-0f6f-4a5e-8a60-0d4d0a6f0001"

static char text[8192];

/* A domain with these children, and an element with these. */
static int read_domain(struct domain *d, const char *element, const char *more,
		       char **ret_why)
{
	snprintf(text, sizeof(text),
		 "<domain type='kvm'><name>vm1</name><uuid>" UUID "</uuid>"
		 "<metadata><weft:gpu xmlns:weft='urn:weft:domain:1'%s</metadata>%s"
		 "</domain>",
		 element, more);
	return domain_read(text, strlen(text), d, ret_why);
}

static const char *value(const struct domain *d, const char *key)
{
	const char *v = gpu_value(&d->gpu, key);

	return v ? v : "(none)";
}

Test(domain, every_key_is_read)
{
	struct domain d;
	char *why;

	cr_assert_eq(
		read_domain(&d,
			    " tenant='t'><weft:memory unit='MiB' min='1' low='2' "
			    "high='3' max='4' weight='7'/>"
			    "<weft:compute weight='8' priority='9' latency='70000'"
				 " max='1000 100000' class='shared'/>"
			    "<weft:tpc set='0-3,5' exclusive='yes'/>"
			    "<weft:kernel rewrite='share'/><weft:graphics mode='off'/>"
			    "<weft:swap max='max'/><weft:host unit='GB' max='2'/>"
			    "<weft:worker max='8'/><weft:sessions max='5'/>"
			    "<weft:lanes max='6'/><weft:vsock cid='42'/>"
			    "<weft:window unit='M' size='64'/></weft:gpu>",
			    "", &why),
		0, "%s", why);
	cr_assert_str_eq(d.tenant, "t");
	cr_assert_str_eq(d.uuid, UUID);
	cr_assert_str_eq(value(&d, "memory.min"), "1048576");
	cr_assert_str_eq(value(&d, "memory.low"), "2097152");
	cr_assert_str_eq(value(&d, "memory.high"), "3145728");
	cr_assert_str_eq(value(&d, "memory.max"), "4194304");
	cr_assert_str_eq(value(&d, "memory.weight"), "7");
	cr_assert_str_eq(value(&d, "compute.weight"), "8");
	cr_assert_str_eq(value(&d, "compute.priority"), "9");
	cr_assert_str_eq(value(&d, "compute.latency"), "70000");
	cr_assert_str_eq(value(&d, "compute.max"), "1000 100000");
	cr_assert_str_eq(value(&d, "compute.class"), "shared");
	cr_assert_str_eq(value(&d, "tpc.set"), "0-3,5");
	cr_assert_str_eq(value(&d, "tpc.exclusive"), "yes");
	cr_assert_str_eq(value(&d, "kernel.rewrite"), "share");
	cr_assert_str_eq(value(&d, "graphics"), "off");
	cr_assert_str_eq(value(&d, "memory.swap.max"), "max");
	cr_assert_str_eq(value(&d, "host.max"), "2000000000", "GB is libvirt's");
	cr_assert_str_eq(value(&d, "worker.memory.max"), "8192", "KiB, as in <memory>");
	cr_assert_str_eq(value(&d, "sessions.max"), "5");
	cr_assert_str_eq(value(&d, "lanes.max"), "6");
	cr_assert_eq(d.gpu.cid, 42);
	cr_assert_eq(d.gpu.window_size, 64u << 20);
	cr_assert_str_eq(value(&d, "window.size"), "67108864");
	domain_fini(&d);
}

static const struct {
	const char *element, *says;
} mistakes[] = {
	{" x='1'/>", "<weft:gpu> has no attribute x"},
	{" tenant='a b'/>", "<weft:gpu tenant='a b'>: a tenant's name is"},
	{" tenant='12'/>", "is not a number"},
	{"><memory max='1'/></weft:gpu>",
	 "<memory> in <weft:gpu> is not of the name space"},
	{"><weft:ram max='1'/></weft:gpu>",
	 "has no element <weft:ram> (there are memory, "
	 "compute, kernel, graphics, tpc, gpc, swap, host, worker, sessions, lanes, window, "
	 "vsock)"},
	{"><weft:compute percent='5'/></weft:gpu>",
	 "percent (there are weight, priority, latency, max, class)"},
	{"><weft:memory maximum='1'/></weft:gpu>",
	 "has no attribute maximum (there are unit, min, low, high, max, weight)"},
	{"><weft:memory max='1'/><weft:memory max='1'/></weft:gpu>", "is there twice"},
	{"><weft:memory max='4G'/></weft:gpu>", "a whole number of units"},
	{"><weft:memory max='-1'/></weft:gpu>", "a whole number of units"},
	{"><weft:memory max=''/></weft:gpu>", "a whole number of units"},
	{"><weft:memory unit='MIB' max='1'/></weft:gpu>", "is none of b, KiB"},
	{"><weft:memory unit='TiB' max='99999999999'/></weft:gpu>", "too large"},
	{"><weft:memory unit='TiB' max='17'/></weft:gpu>", "too large"},
	{"><weft:memory weight='0'/></weft:gpu>", "is no number from 1 to 10000"},
	{"><weft:compute weight='0'/></weft:gpu>", "is no number from 1 to 10000"},
	{"><weft:compute priority='101'/></weft:gpu>", "is no number from 0 to 100"},
	{"><weft:tpc set='5-3'/></weft:gpu>", "is no list of TPCs such as 0-19,40"},
	{"><weft:tpc set='128'/></weft:gpu>", "number too large"},
	{"><weft:tpc count='0'/></weft:gpu>", "is neither a number from 1 to 128"},
	{"><weft:tpc exclusive='1'/></weft:gpu>", "is neither yes nor no"},
	{"><weft:gpc set='x'/></weft:gpu>", "is no list of GPCs such as 0-2"},
	{"><weft:sessions max='9999'/></weft:gpu>", "is no number from 0 to 4096"},
	{"><weft:sessions unit='KiB' max='9'/></weft:gpu>", "has no attribute unit"},
	{"><weft:lanes max='1x'/></weft:gpu>", "is no number"},
	{"><weft:vsock cid='2'/></weft:gpu>", "a number of 3 or more"},
	{"><weft:vsock cid='4294967295'/></weft:gpu>", "is no number, or too large"},
	{"><weft:vsock/></weft:gpu>", "<weft:gpu>"},
	{">text</weft:gpu>", "<weft:gpu>"},
	{"/><weft:gpu xmlns:weft='urn:weft:domain:1'/>", "is there twice"},
};

Test(domain, each_mistake_is_said_in_words)
{
	for (unsigned i = 0; i < sizeof(mistakes) / sizeof(*mistakes); i++) {
		struct domain d;
		char *why;
		int r = read_domain(&d, mistakes[i].element, "", &why);

		cr_expect(r < 0, "%s is taken", mistakes[i].element);
		cr_expect(why && strstr(why, mistakes[i].says), "%s: %s",
			  mistakes[i].element, why ? why : "nothing");
		free(why);
		domain_fini(&d);
	}
}

Test(domain, a_file_that_is_no_domain)
{
	static const char *const not [] = {"",
					   "<",
					   "<network/>",
					   "<domain/>",
					   "<domain><name/></domain>",
					   "<!DOCTYPE d [<!ENTITY a 'b'>]><domain>&a;"};

	for (unsigned i = 0; i < sizeof(not ) / sizeof(*not ); i++) {
		struct domain d;
		char *why;

		cr_expect(domain_read(not [i], strlen(not [i]), &d, &why) < 0);
		cr_expect_not_null(why, "%s", not [i]);
		free(why);
		domain_fini(&d);
	}
}

/* The domain's own name, or where that is no tenant's its UUID. */
Test(domain, a_name_that_no_tenant_has)
{
	static const char whole[] =
		"<domain><name>my vm</name><uuid>" UUID "</uuid><metadata>"
		"<gpu xmlns='urn:weft:domain:1'/></metadata></domain>";
	struct domain d;
	char *why;

	cr_assert_eq(domain_read(whole, sizeof(whole) - 1, &d, &why), 0);
	cr_assert_str_eq(d.tenant, UUID);
	domain_fini(&d);
}

/* Reads what was printed. */
static void read_again(const struct domain *d, struct domain *ret)
{
	char *out = NULL, *why;
	size_t len;
	FILE *f = open_memstream(&out, &len);

	cr_assert_eq(paste_print(d, f), 0);
	fclose(f);
	cr_assert_eq(domain_read(out, len, ret, &why), 0, "%s", why);
	snprintf(text, sizeof(text), "%s", out);
	free(out);
}

static void set(struct domain *d, const char *key, const char *v)
{
	char *why;

	cr_assert_eq(gpu_set(&d->gpu, key, v, &why), 0, "%s", why);
}

Test(domain, what_is_put_in_is_what_is_read)
{
	struct domain d, again;
	char *why, first[sizeof(text)];

	cr_assert_eq(paste_start("vm1", &d, &why), 0);
	set(&d, "memory.max", "1.5G");
	set(&d, "memory.min", "512M");
	set(&d, "host.max", "max");
	set(&d, "cid", "7");
	set(&d, "window.size", "64M");
	cr_assert_eq(paste_apply(&d, &why), 0, "%s", why);
	read_again(&d, &again);
	cr_assert_eq(domain_check(&again, &why), 0, "%s", why);
	cr_assert_str_eq(value(&again, "memory.max"), "1610612736");
	cr_assert_str_eq(value(&again, "memory.min"), "536870912");
	cr_assert_str_eq(value(&again, "host.max"), "max");
	cr_assert(again.gpu.cid == 7 && again.gpu.window_size == 64u << 20);
	memcpy(first, text, sizeof(text));
	domain_fini(&d);
	/* A second time changes nothing. */
	cr_assert_eq(paste_apply(&again, &why), 0, "%s", why);
	read_again(&again, &d);
	cr_assert_str_eq(text, first);
	paste_remove(&d);
	domain_fini(&again);
	read_again(&d, &again);
	cr_assert_null(strstr(text, "weft"), "%s", text);
	cr_assert_null(again.element);
	domain_fini(&again);
	domain_fini(&d);
}

Test(domain, another_slot_where_that_one_is_taken)
{
	struct domain d, again;
	char *why;

	cr_assert_eq(
		read_domain(&d, "/>",
			    "<os><type machine='pc-i440fx-7.2'>hvm</type></os><devices>"
			    "<disk><address type='pci' bus='0x00' slot='0x1c'/></disk>"
			    "<disk><address type='pci' bus='0x01' slot='0x1b'/></disk>"
			    "</devices>",
			    &why),
		0);
	cr_assert_eq(paste_apply(&d, &why), 0, "%s", why);
	read_again(&d, &again);
	cr_assert_not_null(strstr(text, "bus=pci.0,addr=0x1b"), "%s", text);
	domain_fini(&again);
	domain_fini(&d);
}

Test(domain, devices_that_are_missing)
{
	static const struct {
		const char *old, *new, *says;
	} cases[] = {
		{"id=weft-vsock,path", "id=other,path", "no device of the domain's"},
		{"\"shared\"", "\"private\"", "memory is not shared"},
		{"<shmem name=\"weft-vm1\"", "<shmem name=\"weft-vm2\"",
		 "no <shmem name="},
		{"<size unit=\"M\">256", "<size unit=\"M\">128", "134217728 in <shmem"},
		{"<devices>", "<devices><vsock/>", "one vsock device"},
	};
	struct domain d, again;
	char *why;

	cr_assert_eq(paste_start("vm1", &d, &why), 0);
	cr_assert_eq(paste_apply(&d, &why), 0);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char changed[sizeof(text)], *at;

		read_again(&d, &again);
		domain_fini(&again);
		at = strstr(text, cases[i].old);
		cr_assert_not_null(at, "%s", cases[i].old);
		snprintf(changed, sizeof(changed), "%.*s%s%s", (int)(at - text), text,
			 cases[i].new, at + strlen(cases[i].old));
		cr_assert_eq(domain_read(changed, strlen(changed), &again, &why), 0);
		cr_expect(domain_check(&again, &why) < 0, "%s", cases[i].new);
		cr_expect(why && strstr(why, cases[i].says), "%s", why);
		free(why);
		domain_fini(&again);
	}
	domain_fini(&d);
}
