/* SPDX-License-Identifier: Apache-2.0 */
/* doctor: what is wrong with this host, and what to type. */
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "tools/ctl/ctl.h"
#include "tools/ctl/doctor.h"
#include "util/conf.h"

#define CONF_DEFAULT "/etc/weft/weftd.conf"

static const char *const words[FOUND_NUM] = {
	[FOUND_OK] = "ok",
	[FOUND_HINT] = "hint",
	[FOUND_WRONG] = "wrong",
};

struct report {
	const struct ctl *ctl;
	struct json_object *checks; /* NULL: lines are printed */
	unsigned n[FOUND_NUM];
};

static void add(struct json_object *o, const char *key, const char *text)
{
	if (text)
		json_object_object_add(o, key, json_object_new_string(text));
}

static void report(void *arg, enum finding what, const char *check, const char *text,
		   const char *type)
{
	struct report *r = arg;
	struct json_object *o;

	r->n[what]++;
	if (!r->checks) {
		printf("%-6s %-10s %s\n", words[what], check, text);
		if (type)
			printf("%-17s type: %s\n", "", type);
		return;
	}
	o = json_object_new_object();
	add(o, "check", check);
	add(o, "found", words[what]);
	add(o, "says", text);
	add(o, "type", type);
	json_object_array_add(r->checks, o);
}

static void say_conf(void *arg, bool wrong, const char *text)
{
	doctor_say(arg, wrong ? FOUND_WRONG : FOUND_HINT, "conf",
		   wrong ? "weftd --check-config, and correct it" : NULL, "%s", text);
}

/* Reads the file as weftd would. Returns true if it has no mistakes. */
static bool read_conf(struct doctor *d, struct conf *c)
{
	_cleanup_free_ char *why = NULL;

	if (conf_read_all(c, CONF_DEFAULT, false, &why) < 0) {
		doctor_say(d, FOUND_WRONG, "conf", "weftd --check-config, and correct it",
			   "%s", why ? why : "out of memory");
		return false;
	}
	if (conf_complete(c) < 0 || conf_check(c, CONF_DEFAULT, say_conf, d))
		return false;
	doctor_say(d, FOUND_OK, "conf", NULL, "no mistakes");
	return true;
}

static void say_version(const struct doctor *d, struct json_object *a)
{
	const char *version = json_str(a, "version");

	if (strcmp(version, WEFT_VERSION) != 0)
		doctor_say(
			d, FOUND_HINT, "weftd", "systemctl restart weftd",
			"runs (pid %d), but is of version %s; this one is " WEFT_VERSION,
			(int)d->weftd, version);
	else
		doctor_say(d, FOUND_OK, "weftd", NULL, "runs (pid %d)", (int)d->weftd);
	if (!d->changes)
		doctor_say(d, FOUND_HINT, "weftd",
			   "usermod -aG GROUP USER, the group that weftd.conf names as "
			   "operators",
			   "this user may look and change nothing");
}

static void ask_weftd(struct doctor *d, const struct ctl *ctl)
{
	_cleanup_(ctl_putp) struct json_object *a = NULL;
	_cleanup_free_ char *why = NULL;
	struct client c;
	int r = client_open(&c, ctl->control, &why);

	if (r == 0) {
		r = client_ask(&c, client_request("hello"), &a);
		client_close(&c);
	}
	if (r < 0) {
		doctor_say(d, FOUND_WRONG, "weftd", "systemctl start weftd", "%s",
			   why ? why : client_error(r, a));
		return;
	}
	d->weftd = (pid_t)json_u64(a, "pid");
	d->changes = !strcmp(json_str(a, "may"), "change");
	say_version(d, a);
}

static int finish(const struct report *r)
{
	bool ok = !r->n[FOUND_WRONG];
	struct json_object *o;

	if (!r->checks) {
		if (ok)
			printf("\nnothing is wrong, %u hints\n", r->n[FOUND_HINT]);
		else
			printf("\n%u wrong, %u hints\n", r->n[FOUND_WRONG],
			       r->n[FOUND_HINT]);
		return ok ? 0 : 1;
	}
	o = json_object_new_object();
	json_object_object_add(o, "ok", json_object_new_boolean(ok));
	json_object_object_add(o, "checks", r->checks);
	puts(json_object_to_json_string_ext(o, CLIENT_JSON));
	json_object_put(o);
	return ok ? 0 : 1;
}

int ctl_doctor(const struct ctl *ctl, int argc, char **argv)
{
	struct report r = {.ctl = ctl,
			   .checks = ctl->json ? json_object_new_array() : NULL};
	struct doctor d = {.root = "", .say = report, .arg = &r};
	struct conf c;

	if (conf_init(&c) < 0)
		return ctl_failed(ctl, "out of memory");
	if (read_conf(&d, &c))
		d.conf = &c;
	ask_weftd(&d, ctl);
	doctor_host(&d);
	doctor_weftd(&d);
	doctor_vms(&d);
	conf_fini(&c);
	return finish(&r);
}
