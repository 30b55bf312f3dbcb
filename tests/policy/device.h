/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated device that goes round among sessions as the hardware does, with the slices
 * that a policy says, and among those that may go by its turns, with a clock of its own. What
 * it costs to go from one to the next was measured (policies/time.h).
 */
#ifndef WEFT_TESTS_POLICY_DEVICE_H
#define WEFT_TESTS_POLICY_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "policies/time.h"

#define MOST    4096u
#define SECOND  1000000ull
#define LOOK_US 1000u

struct session {
	uint32_t tenant;
	bool loops; /* has work always */
	/* Else: how much each time, how often, when next; what is left of it, since when. */
	uint64_t work, period, next, left, since;
	uint64_t ran;    /* us */
	uint64_t waited; /* from the beginning of works to their ends */
};

static struct {
	struct time_tenant t[MOST];
	uint32_t slice[MOST], n;
	bool eager;
	struct session s[MOST];
	uint32_t n_sessions, at, last;
	uint64_t now;
	uint64_t slowest; /* from the beginning of a work to its end */
	uint64_t look;    /* when turns are decided next */
	uint64_t rest;    /* of the slice of the last one, which was cut for that */
	struct time_device device;
	struct time_turn turn[MOST];
	bool nothing_runs; /* a slice was too short for anything */
} sim;

static void setup(void)
{
	memset(&sim, 0, sizeof(sim));
	sim.last = UINT32_MAX;
}

static uint32_t tenant(uint32_t weight, uint32_t priority)
{
	sim.t[sim.n] = (struct time_tenant){.weight = weight,
					    .priority = priority,
					    .pending = TIME_UNSEEN,
					    .busy = TIME_UNSEEN,
					    .goes = true};
	return sim.n++;
}

static struct session *session(uint32_t of)
{
	sim.t[of].sessions++;
	sim.s[sim.n_sessions].tenant = of;
	return &sim.s[sim.n_sessions++];
}

static void looping(uint32_t of, uint32_t n)
{
	while (n--)
		session(of)->loops = true;
}

static void periodic(uint32_t of, uint64_t work, uint64_t period)
{
	struct session *s = session(of);

	s->work = work;
	s->next = s->period = period;
}

static void arrive(void)
{
	for (uint32_t i = 0; i < sim.n_sessions; i++) {
		struct session *s = &sim.s[i];

		if (s->loops || s->left || s->next > sim.now)
			continue;
		s->left = s->work;
		s->since = s->next;
		s->next += s->period;
	}
}

static bool may_run(const struct session *s)
{
	return (s->loops || s->left) && sim.t[s->tenant].goes;
}

/* Returns the next one that has work, in order; NULL: nobody has. */
static struct session *turn(void)
{
	if (sim.rest && may_run(&sim.s[sim.last]))
		return &sim.s[sim.last];
	sim.rest = 0;
	for (uint32_t i = 0; i < sim.n_sessions; i++) {
		uint32_t k = (sim.at + i) % sim.n_sessions;

		if (!may_run(&sim.s[k]))
			continue;
		sim.at = k + 1;
		if (k != sim.last)
			sim.now += TIME_SWITCH_US + TIME_LOAD_US;
		sim.last = k;
		return &sim.s[k];
	}
	return NULL;
}

/* Decides who may go, once a millisecond. */
static void take_turns(const struct time_policy *p)
{
	uint64_t us = sim.now - sim.look + LOOK_US;

	if (!p->turns || sim.now < sim.look)
		return;
	sim.look = sim.now + LOOK_US;
	for (uint32_t i = 0; i < sim.n; i++) {
		sim.t[i].works = false;
		sim.t[i].for_us += (uint32_t)us;
		sim.t[i].idle_us += (uint32_t)us;
	}
	for (uint32_t i = 0; i < sim.n_sessions; i++)
		sim.t[sim.s[i].tenant].works |= sim.s[i].loops || sim.s[i].left;
	for (uint32_t i = 0; i < sim.n; i++)
		sim.t[i].idle_us = sim.t[i].works ? 0 : sim.t[i].idle_us;
	memset(sim.turn, 0, sim.n * sizeof(*sim.turn));
	p->turns(&sim.device, sim.t, sim.n, sim.turn);
	for (uint32_t i = 0; i < sim.n; i++) {
		if (sim.t[i].goes != sim.turn[i].go)
			sim.t[i].for_us = 0;
		sim.t[i].goes = sim.turn[i].go;
	}
}

static void step(const struct time_policy *p)
{
	struct session *s;
	uint64_t us;

	arrive();
	take_turns(p);
	s = turn();
	if (!s) {
		sim.now += 10;
		return;
	}
	us = sim.slice[s->tenant] ? sim.slice[s->tenant] : 2048;
	sim.nothing_runs |= us <= TIME_LOAD_US;
	us = sim.rest ? sim.rest : us > TIME_LOAD_US ? us - TIME_LOAD_US : 1;
	sim.rest = p->turns && us > LOOK_US ? us - LOOK_US : 0;
	us -= sim.rest;
	if (!s->loops && us > s->left)
		us = s->left;
	sim.now += us;
	s->ran += us;
	if (s->loops)
		return;
	s->left -= us;
	if (s->left)
		return;
	s->waited += sim.now - s->since;
	if (sim.now - s->since > sim.slowest)
		sim.slowest = sim.now - s->since;
}

static uint64_t ran(uint32_t of)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < sim.n_sessions; i++)
		sum += sim.s[i].tenant == of ? sim.s[i].ran : 0;
	return sum;
}

static void go(const struct time_policy *p, uint64_t us)
{
	uint64_t from = sim.now;

	for (uint32_t i = 0; i < sim.n_sessions; i++)
		sim.s[i].ran = sim.s[i].waited = 0;
	sim.slowest = 0;
	p->slices(&sim.device, sim.t, sim.n, &sim.eager, sim.slice);
	while (sim.now < from + us)
		step(p);
	for (uint32_t i = 0; i < sim.n; i++) {
		sim.t[i].busy = (uint32_t)(ran(i) * 1000 / (sim.now - from));
		sim.t[i].pending = TIME_UNSEEN;
	}
	for (uint32_t i = 0; i < sim.n_sessions; i++) {
		const struct session *s = &sim.s[i];
		uint64_t had = s->loops ? 1000 : s->waited * 1000 / (sim.now - from);
		struct time_tenant *t = &sim.t[s->tenant];

		t->pending = had < t->pending ? (uint32_t)had : t->pending;
	}
}

#endif
