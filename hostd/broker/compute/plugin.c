/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: timer_settime rt_sigprocmask rt_sigreturn rt_sigaction */
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/compute/plugin.h"
#include "broker/tenant.h"
#include "policies/time.h"

#define STACK_BYTES  (64u << 10)
#define NAME_MAX_LEN 31

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGALRM};

static struct {
	const struct time_policy *policy; /* NULL: none was loaded */
	char *path;
	timer_t timer;
	struct sigaction before[ARRAY_SIZE(signals)];
	sigjmp_buf back;
	volatile sig_atomic_t inside;
	bool mended; /* once it has been said */
} plugin;

/* ---- a guarded call ---- */

static void on_signal(int sig)
{
	if (plugin.inside)
		siglongjmp(plugin.back, sig);
	/* Somebody else's: it happens again. */
	for (unsigned i = 0; i < ARRAY_SIZE(signals); i++) {
		if (signals[i] == sig && sig != SIGALRM)
			sigaction(sig, &plugin.before[i], NULL);
	}
}

/* A stack that has overflown is no place for a handler. */
static int open_stack(void)
{
	stack_t s = {.ss_size = STACK_BYTES};

	s.ss_sp = mmap(NULL, s.ss_size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s.ss_sp == MAP_FAILED)
		return -errno;
	return sigaltstack(&s, NULL) < 0 ? -errno : 0;
}

static int open_guard(void)
{
	struct sigaction a = {.sa_handler = on_signal,
			      .sa_flags = SA_ONSTACK | SA_NODEFER};
	struct sigevent e = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};
	int r = open_stack();

	if (r < 0)
		return r;
	e._sigev_un._tid = gettid();
	if (timer_create(CLOCK_MONOTONIC, &e, &plugin.timer) < 0)
		return -errno;
	for (unsigned i = 0; i < ARRAY_SIZE(signals); i++) {
		if (sigaction(signals[i], &a, &plugin.before[i]) < 0)
			return -errno;
	}
	return 0;
}

static void set_timer(uint64_t ns)
{
	const struct itimerspec t = {.it_value.tv_nsec = (long)ns};

	timer_settime(plugin.timer, 0, &t, NULL);
}

/* Returns 0, or the signal that ended it. */
static int guarded(void (*fn)(void *arg), void *arg)
{
	int sig = sigsetjmp(plugin.back, 1);

	if (sig == 0) {
		plugin.inside = 1;
		set_timer(PLUGIN_LIMIT_NS);
		fn(arg);
	}
	plugin.inside = 0;
	set_timer(0);
	return sig;
}

/* ---- loading ---- */

static const char *wrong(const struct time_policy *p, char *buf, size_t size)
{
	if (p->abi != TIME_ABI) {
		snprintf(buf, size, "is for version %u of policies/time.h, not %u",
			 p->abi, TIME_ABI);
		return buf;
	}
	if (!p->name || !*p->name || strnlen(p->name, NAME_MAX_LEN + 1) > NAME_MAX_LEN)
		return "has no name";
	if (time_policy_find(p->name))
		return "has the name of one of weftd's own";
	return p->slices ? NULL : "has no slices()";
}

static const struct time_policy *load(const char *path, char **ret_why)
{
	void *object = dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL);
	const struct time_policy *p = object ? dlsym(object, TIME_SYMBOL) : NULL;
	const char *why = NULL;
	char buf[80];
	int r;

	if (!p)
		why = dlerror();
	else
		why = wrong(p, buf, sizeof(buf));
	if (!why) {
		r = open_guard();
		why = r < 0 ? strerror(-r) : NULL;
	}
	if (!why)
		return p;
	if (asprintf(ret_why, "time policy %s: %s", path, why) < 0)
		*ret_why = NULL;
	if (object)
		dlclose(object);
	return NULL;
}

const struct time_policy *plugin_find(const char *name, char **ret_why)
{
	*ret_why = NULL;
	if (*name != '/')
		return time_policy_find(name);
	plugin.policy = load(name, ret_why);
	plugin.path = plugin.policy ? strdup(name) : NULL;
	return plugin.policy;
}

/* ---- asking ---- */

bool plugin_room(struct broker *b, uint32_t *ret_n)
{
	struct asked *a = &b->asked;
	const struct tenant *tenant;
	struct time_tenant *t;
	struct time_turn *turns;
	uint32_t *us, n = 0;

	list_for_each (tenant, &b->tenants, link)
		n++;
	*ret_n = n;
	if (n <= a->room)
		return true;
	t = realloc(a->tenants, n * sizeof(*t));
	a->tenants = t ? t : a->tenants;
	us = realloc(a->us, n * sizeof(*us));
	a->us = us ? us : a->us;
	turns = realloc(a->turns, n * sizeof(*turns));
	a->turns = turns ? turns : a->turns;
	if (!t || !us || !turns)
		return false;
	a->room = n;
	return true;
}

void plugin_fini(struct broker *b)
{
	free(b->asked.tenants);
	free(b->asked.us);
	free(b->asked.turns);
}

struct question {
	struct broker *b;
	uint32_t n;
};

static void ask_slices(void *arg)
{
	const struct question *q = arg;
	struct asked *a = &q->b->asked;

	q->b->time->slices(&a->device, a->tenants, q->n, &q->b->slices.eager, a->us);
}

static void ask_turns(void *arg)
{
	const struct question *q = arg;
	struct asked *a = &q->b->asked;

	q->b->time->turns(&a->device, a->tenants, q->n, a->turns);
}

static bool is_from_outside(const struct broker *b)
{
	return b->time == plugin.policy;
}

/* Returns false if the policy is not asked any more, but `fair` is. */
static bool ask(struct broker *b, void (*fn)(void *arg), uint32_t n)
{
	struct question q = {b, n};
	int sig;

	if (!is_from_outside(b)) {
		fn(&q);
		return true;
	}
	sig = guarded(fn, &q);
	if (!sig)
		return true;
	log_error("time policy %s %s: fair decides in its place until weftd is started "
		  "again",
		  plugin.path,
		  sig == SIGALRM ? "did not answer in time" : strsignal(sig));
	b->time = &time_fair;
	b->slices.eager = false;
	return false;
}

static void mended(const char *what)
{
	if (!plugin.mended)
		log_warning("time policy %s: %s; this is said once", plugin.path, what);
	plugin.mended = true;
}

/* In less than TIME_BELOW_US nothing runs. */
static void mend_slices(uint32_t n, uint32_t *us)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t was = us[i];

		if (!was)
			continue;
		us[i] = MIN(MAX(was, TIME_BELOW_US), TIME_LOAD_US + TIME_LONGEST_US);
		if (us[i] != was)
			mended("a slice was too short or too long");
	}
}

void plugin_slices(struct broker *b, uint32_t n)
{
	memset(b->asked.us, 0, n * sizeof(*b->asked.us));
	if (!ask(b, ask_slices, n))
		(void)ask(b, ask_slices, n);
	if (is_from_outside(b))
		mend_slices(n, b->asked.us);
}

/* A wait of several times what the policies here allow. */
#define OVERDUE_US (5 * TIME_STARVED_US)

static void mend_turns(const struct time_tenant *t, uint32_t n, struct time_turn *turn)
{
	for (uint32_t i = 0; i < n; i++) {
		if (turn[i].go || !t[i].works || t[i].goes || t[i].for_us < OVERDUE_US)
			continue;
		turn[i].go = true;
		mended("a tenant with work had not gone for 5 s");
	}
}

static void let_all_go(struct broker *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		b->asked.turns[i] = (struct time_turn){.go = true};
}

void plugin_turns(struct broker *b, uint32_t n)
{
	memset(b->asked.turns, 0, n * sizeof(*b->asked.turns));
	if (!b->time->turns || !ask(b, ask_turns, n))
		let_all_go(b, n); /* `fair` has no turns */
	if (is_from_outside(b))
		mend_turns(b->asked.tenants, n, b->asked.turns);
}
