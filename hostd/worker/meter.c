/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: sendmsg */
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "device/device.h"
#include "ipc/page.h"
#include "memory/cold.h"
#include "session/footprint.h"
#include "session/gate.h"
#include "util/epoll.h"
#include "worker/meter.h"

/* How often utilisation is measured while something runs. */
#define TICK_NS (500 * NSEC_PER_MSEC)
/* A driver may take milliseconds for that, and kernels that are off are to go on to the moment:
 * while they are, it is not measured before so long. */
#define TICK_OFF_NS (2 * NSEC_PER_SEC)
/* While anything runs, it is looked so often whether work is pending, unless weftd wants to
 * know more exactly; at least, too. */
#define LOOK_NS     (50 * NSEC_PER_MSEC)
#define LOOK_MIN_NS NSEC_PER_MSEC
/* Ticks without anything having run, after which measuring ends: a driver tells of a
 * kernel up to a second late. */
#define QUIET_TICKS 4

void meter_init(struct meter *m, struct session *s)
{
	*m = (struct meter){.s = s, .look_ns = LOOK_NS};
	pthread_mutex_init(&m->lock, NULL);
	sess_parts(s, &m->on);
	if (m->on.ops->limit)
		m->on.ops->limit(m->on.dev, &m->on.page->kernel_limit);
}

/* ---- utilisation ---- */

static uint64_t permille_of(uint64_t busy_ns, uint64_t all_ns)
{
	return MIN(busy_ns * 1000 / MAX(all_ns, 1ull), 1000ull);
}

static void say_rewrites(const struct meter *m)
{
	struct worker_page *page = m->on.page;
	struct device_rewrites n;

	if (!m->on.ops->rewrites)
		return;
	m->on.ops->rewrites(m->on.dev, &n);
	atomic_store_explicit(&page->kernels, n.kernels, memory_order_relaxed);
	atomic_store_explicit(&page->kernels_rewritten, n.copies, memory_order_relaxed);
	atomic_store_explicit(&page->launches_rewritten, n.launches,
			      memory_order_relaxed);
}

/* Says of the kernel that runs most what who decides about blocks wants to know; nothing is known
 * of those that have no second form. */
static void say_kernel(struct meter *m)
{
	struct worker_page *page = m->on.page;
	struct device_kernel k;

	static_assert(DEV_SM_RESOURCES == PAGE_KERNEL_RESOURCES, "all have a place");
	static_assert(DEV_KERNEL_PARTS == PAGE_KERNEL_PARTS, "likewise");
	static_assert(DEV_SM_PARTS == 1000000, "as the page has it");
	static_assert(DEV_BLOCKS_PLAIN == PAGE_KERNEL_PLAIN, "likewise");
	if (!m->on.ops->busiest || !m->on.ops->busiest(m->on.dev, &k))
		return;
	for (unsigned i = 0; i < PAGE_KERNEL_RESOURCES; i++)
		atomic_store_explicit(&page->kernel_need[i], k.need[i],
				      memory_order_relaxed);
	for (unsigned i = 0; i < PAGE_KERNEL_PARTS; i++)
		atomic_store_explicit(&page->kernel_speed[i], k.speed[i],
				      memory_order_relaxed);
	atomic_store_explicit(&page->kernel_fixed, k.fixed, memory_order_relaxed);
	atomic_store_explicit(&page->kernel_blocks, k.blocks, memory_order_relaxed);
}

static void say_forms(const struct meter *m)
{
	struct worker_page *page = m->on.page;
	struct device_form forms[DEV_FORMS_MAX];
	unsigned n;

	static_assert(DEV_FORMS_MAX == PAGE_FORMS_MAX, "all have a place");
	if (!m->on.ops->forms)
		return;
	n = m->on.ops->forms(m->on.dev, forms);
	for (unsigned i = 0; i < n; i++) {
		struct page_form f = {.cost = forms[i].cost, .rewritten = !*forms[i].why};

		memcpy(f.name, forms[i].name, sizeof(f.name));
		memcpy(f.why, f.rewritten ? forms[i].no_yield : forms[i].why,
		       sizeof(f.why));
		if (memcmp(&page->forms[i], &f, sizeof(f)) != 0)
			memcpy(&page->forms[i], &f, sizeof(f));
	}
	atomic_store_explicit(&page->n_forms, n, memory_order_release);
}

/* Measures since the last time; true if anything ran. Time in which nobody measured, of
 * which a device may say anything, is not counted. */
static bool measure_locked(struct meter *m)
{
	struct worker_page *page = m->on.page;
	uint64_t memory, busy = m->on.ops->busy_ns(m->on.dev, &memory);
	uint64_t now = clock_now_ns(), all = now - m->busy_at_ns;
	bool ran = busy != m->busy_ns;

	atomic_store_explicit(&page->busy_permille, permille_of(busy - m->busy_ns, all),
			      memory_order_relaxed);
	atomic_store_explicit(&page->memory_permille,
			      permille_of(memory - m->memory_ns, all),
			      memory_order_relaxed);
	atomic_store_explicit(&page->busy_at_ns, now, memory_order_relaxed);
	atomic_fetch_add_explicit(&page->busy_ns, busy - m->busy_ns,
				  memory_order_relaxed);
	say_rewrites(m);
	say_forms(m);
	m->busy_ns = busy;
	m->memory_ns = memory;
	m->busy_at_ns = now;
	return ran;
}

void meter_end(struct meter *m)
{
	pthread_mutex_lock(&m->lock);
	if (sess_active(m->s) && m->busy_at_ns)
		measure_locked(m);
	pthread_mutex_unlock(&m->lock);
}

/* Adds for how long the session has had the device since it was asked last, unless it did not
 * compute then. */
static void say_had(struct meter *m, bool computed)
{
	uint64_t had, since = 0;
	bool known = m->on.ops->had_ns && m->on.ops->had_ns(m->on.dev, &had);

	if (known && m->had_known && computed)
		since = had - MIN(m->had_ns, had);
	if (known && (!m->had_known || had > m->had_ns))
		m->had_ns = had;
	m->had_known = known;
	if (!known)
		atomic_store_explicit(&m->on.page->had_ns, 0, memory_order_relaxed);
	else if (!atomic_load_explicit(&m->on.page->had_ns, memory_order_relaxed))
		atomic_store_explicit(&m->on.page->had_ns, 1, memory_order_relaxed);
	else
		atomic_fetch_add_explicit(&m->on.page->had_ns, since,
					  memory_order_relaxed);
}

/* weftd decides about time slices anew. */
static void say_computing(struct meter *m, bool is)
{
	const struct msg say = {.type = MSG_COMPUTES};

	if ((atomic_exchange(&m->on.page->computing, is) != 0) != is)
		(void)msg_send(MSG_FD, &say, -1, -1);
}

void meter_begin(struct meter *m)
{
	pthread_mutex_lock(&m->lock);
	m->busy_ns = m->on.ops->busy_ns(m->on.dev, &m->memory_ns);
	m->busy_at_ns = clock_now_ns();
	pthread_mutex_unlock(&m->lock);
	say_had(m, false);
	m->quiet = 0;
	say_computing(m, true);
}

/* Measures since the last tick. Once nothing ran for a while, ticking ends. */
static void tick(struct meter *m)
{
	struct worker_page *page = m->on.page;
	uint64_t looks = atomic_load_explicit(&page->looks_pending, memory_order_relaxed);
	bool ran;

	/* A kernel's first launch may load it, or make the stacks larger. */
	footprint_tick(m->s);
	pthread_mutex_lock(&m->lock);
	ran = measure_locked(m);
	pthread_mutex_unlock(&m->lock);
	/* Copies are no kernels, but work; and so is what is held. */
	ran |= looks != m->looks_seen || gate_wanted(m->on.gate);
	m->looks_seen = looks;
	if (!m->held)
		cold_tick(m->on.space, clock_now_ns());
	m->quiet = ran ? 0 : m->quiet + 1;
	if (m->quiet != QUIET_TICKS)
		return;
	/* In this order: a launch meanwhile says it again. */
	sess_set_inactive(m->s);
	atomic_store_explicit(&page->pending, PAGE_NO_WORK, memory_order_relaxed);
	atomic_store_explicit(&page->waiting, 0, memory_order_relaxed);
	say_computing(m, false);
}

/* ---- whether there is work ---- */

static void preempt(struct meter *m, bool computes, uint64_t now_ns)
{
	bool on = computes && now_ns < m->preempt_until_ns, was = m->preempted;

	if (on || was)
		m->preempted = gate_preempt(m->on.gate, on);
	/* To the moment: for some kernels that takes milliseconds. */
	if (m->preempted && !was)
		say_had(m, true);
}

static void look(struct meter *m, uint64_t now_ns)
{
	struct worker_page *page = m->on.page;
	uint64_t launches = atomic_load_explicit(&page->launches, memory_order_relaxed);
	enum page_pending kind = PAGE_NO_WORK;
	bool pending;

	m->looked_at_ns = now_ns;
	say_kernel(m);
	if (m->on.ops->resize)
		m->on.ops->resize(m->on.dev);
	if (!m->on.ops->pending)
		return;
	say_had(m, true);
	pending = m->on.ops->pending(m->on.dev);
	if (pending)
		kind = launches != m->launches ? PAGE_KERNELS : PAGE_COPIES;
	preempt(m, kind == PAGE_KERNELS, now_ns);
	/* Work that stands still has no use for the device, but waits, as lanes at the gate do. */
	if (m->preempted || gate_is_frozen(m->on.gate))
		kind = PAGE_NO_WORK;
	if (kind != PAGE_NO_WORK)
		atomic_fetch_add_explicit(&page->looks_pending, 1, memory_order_relaxed);
	if (!pending) {
		m->launches = launches;
		gate_is_drained(m->on.gate);
	}
	atomic_store_explicit(&page->pending, kind, memory_order_relaxed);
	(void)gate_wanted_now(m->on.gate); /* says so, if it is held no longer */
	atomic_store_explicit(&page->waiting, gate_wanted(m->on.gate),
			      memory_order_relaxed);
	atomic_fetch_add_explicit(&page->looks, 1, memory_order_relaxed);
}

static uint64_t tick_at_ns(const struct meter *m)
{
	return m->busy_at_ns + (m->preempted ? TICK_OFF_NS : TICK_NS);
}

uint64_t meter_look(struct meter *m)
{
	uint64_t now = clock_now_ns(), next;

	if (!sess_active(m->s))
		return EPOLL_FOREVER;
	if (m->preempted && now >= m->preempt_until_ns)
		preempt(m, false, now);
	if (now >= m->looked_at_ns + m->look_ns)
		look(m, now);
	if (now >= tick_at_ns(m))
		tick(m);
	now = clock_now_ns();
	next = MIN(tick_at_ns(m), m->looked_at_ns + m->look_ns);
	if (m->preempted)
		next = MIN(next, m->preempt_until_ns);
	return next - MIN(now, next);
}

/* ---- how fast it goes on ---- */

void meter_pace(struct meter *m, const struct msg_pace *p)
{
	bool holds = p->held_until_ns && !m->held;

	m->held = p->held_until_ns;
	m->preempt_until_ns = p->preempt ? p->held_until_ns : 0;
	m->look_ns = p->look_us ? MAX(p->look_us * NSEC_PER_USEC, LOOK_MIN_NS) : LOOK_NS;
	sess_bound(m->s, p->bound);
	gate_hold(m->on.gate, p->held_until_ns);
	/* Nothing would put on again what is taken off where nobody looks. */
	if (sess_active(m->s) && (m->preempt_until_ns || m->preempted))
		look(m, clock_now_ns());
	if (holds)
		cold_turn_ended(m->on.space, clock_now_ns());
}
