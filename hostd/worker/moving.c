/* SPDX-License-Identifier: Apache-2.0 */
/* #syscalls: clone futex sendmsg, and what the device does to map */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "ipc/page.h"
#include "memory/managed.h"
#include "memory/move.h"
#include "memory/pool/pool.h"
#include "memory/space.h"
#include "session/gate.h"
#include "session/session.h"
#include "worker/broker_link.h"
#include "worker/moving.h"

/* Time for which the session's lanes are kept waiting for its own work to end: longer
 * than almost any kernel, shorter than anybody notices. */
#define PATIENCE_NS (50 * NSEC_PER_MSEC)
/* Time before kernels are made to stand still. A guest that asks has waited for longer before, but
 * for kernels that it has seen do so. */
#define STILL_PATIENCE_NS NSEC_PER_MSEC
/* Time before those are that are kept so; most end within that. */
#define KEEP_PATIENCE_NS (5 * NSEC_PER_MSEC)
/* Times that a move for MAKE_RESIDENT waits for that: there is no second chance. */
#define RESIDENT_TRIES 5
/* Upper bound of the time, which doubles after each failure in a row. weftd is not kept
 * waiting for that. */
#define PATIENCE_MAX_NS NSEC_PER_SEC
/* Time for which the gate stays closed after QUIESCED, for weftd to say what is to
 * move. */
#define STAY_NS (20 * NSEC_PER_MSEC)

/* Jobs that weftd gives, in the order in which they are done. */
enum job {
	JOB_NEED,
	JOB_MAKE_RESIDENT,
	JOB_RECLAIM,
	JOB_RESTORE,
	JOB_PREALLOC,
	JOB_QUIET, /* a lane's, not weftd's */
	JOB_NUM
};

/* Memory that a lane waits for, one lane at a time. */
struct residence {
	struct backing *c; /* NULL: nobody does; the lane has a reference */
	uint64_t bytes;
	uint32_t id; /* 0: answered */
	bool done;
	int result;
};

/* Work of a lane that waits for the session to be quiet, one lane at a time. */
struct quiet {
	int (*work)(void *what); /* NULL: nobody does */
	void *what;
	struct managed_wait *wait;
	uint64_t until_ns; /* with wait->us, and wait->keep: when it is not tried again */
	unsigned tried;
	bool done;
	int result;
};

struct moving {
	struct session *s;
	struct sess_parts on;
	struct broker_link *link;
	pthread_t thread;

	pthread_mutex_t lock; /* a leaf, taken under the gate's */
	pthread_cond_t cond;
	struct msg jobs[JOB_NUM];
	unsigned pending; /* a bit per job */
	uint32_t need;    /* id of the NEED that is not answered; 0: none */
	uint64_t need_bytes;
	struct residence residence;
	struct quiet quiet;
	pthread_cond_t done_cond; /* residence, quiet */
	bool evicts;              /* when weftd says so */
	bool wanted, ending;

	/* of the thread only */
	uint64_t patience_ns;
	bool kept; /* kernels stand still until the guest says that they need not */
	struct {
		uint32_t id;            /* of RECLAIM */
		uint64_t wanted, bytes; /* to be freed by moving, and so far */
		uint64_t told;          /* of these */
	} leaving;
};

/* ---- on the thread ---- */

static void say(const struct moving *m, const struct msg *msg)
{
	/* A broken pair is the main thread's matter. */
	(void)broker_link_say(m->link, msg);
}

/* Says RECLAIMED or RESTORED. */
static void say_moved(const struct moving *m, enum msg_type type, uint32_t id,
		      const struct msg_moved *moved)
{
	const struct msg msg = {.type = type, .id = id, .moved = *moved};

	say(m, &msg);
}

/* Says RESTORED, of what came for a question that was answered. */
static void say_granted_moved(const struct moving *m, uint32_t id, uint64_t bytes, int r)
{
	say_moved(m, MSG_RESTORED, id, &(struct msg_moved){.result = r, .bytes = bytes});
}

static void count(_Atomic uint64_t *c, uint64_t n)
{
	atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

/* As gate_close_begin(); what does not end in time stands still. Lanes have had their time by then. */
static int begin(const struct moving *m)
{
	int r = gate_close_begin(m->on.gate, clock_now_ns() + PATIENCE_NS);

	if (r == -EBUSY)
		r = gate_freeze(m->on.gate, clock_now_ns());
	return r;
}

static uint64_t swapped(const struct moving *m)
{
	struct space_residency r;

	space_residency(m->on.space, &r);
	return r.swapped;
}

static void open_gate(const struct moving *m)
{
	if (!m->kept)
		gate_open(m->on.gate);
}

/* Maps what is swapped, which has got no room or for which lanes have waited long enough,
 * and opens the gate. */
static void go_on_without(struct moving *m)
{
	int r = space_map_swapped(m->on.space);

	if (r < 0)
		log_warning("memory stays out of reach: %s", strerror(-r));
	open_gate(m);
}

static void ask_need_locked(struct moving *m)
{
	const struct msg msg = {
		.type = MSG_NEED, .id = m->need, .need.bytes = m->need_bytes};

	say(m, &msg);
}

static int ask_residence_locked(struct moving *m)
{
	const struct msg msg = {.type = MSG_MAKE_RESIDENT,
				.id = m->residence.id,
				.make_resident.bytes = m->residence.bytes};

	return broker_link_say(m->link, &msg);
}

/* Opens the gate, or asks for room for what is swapped if a lane wants in. */
static void go_on(struct moving *m)
{
	uint64_t bytes = swapped(m);

	if (m->kept)
		return;
	if (!bytes) {
		gate_open(m->on.gate);
		return;
	}
	if (!gate_wanted_now(m->on.gate))
		return;
	pthread_mutex_lock(&m->lock);
	/* One that has come and waits for its turn opens the gate. */
	if (!m->need && !(m->pending & 1u << JOB_NEED)) {
		m->need = broker_link_id(m->link);
		m->need_bytes = bytes;
		ask_need_locked(m);
	}
	pthread_mutex_unlock(&m->lock);
}

/* Waits, behind a closed gate, for what weftd says next. Returns false: nothing. */
static bool told_to_move(struct moving *m)
{
	const unsigned moves = 1u << JOB_RECLAIM | 1u << JOB_RESTORE;
	uint64_t until = clock_now_ns() + STAY_NS;
	const struct timespec ts = {.tv_sec = (time_t)(until / NSEC_PER_SEC),
				    .tv_nsec = (long)(until % NSEC_PER_SEC)};
	bool told;

	pthread_mutex_lock(&m->lock);
	while (!(m->pending & moves) && !m->ending &&
	       !pthread_cond_clockwait(&m->cond, &m->lock, CLOCK_MONOTONIC, &ts))
		;
	told = m->pending & moves;
	pthread_mutex_unlock(&m->lock);
	return told;
}

/* Waits on for work to end, and says what came of it. Returns true if the gate is closed
 * now, and a move comes. */
static bool wait_longer(struct moving *m, uint64_t patience_ns)
{
	uint64_t deadline = clock_now_ns() + patience_ns - PATIENCE_NS;
	struct msg msg = {.type = MSG_QUIESCED};
	int r = gate_close(m->on.gate, deadline);

	msg.quiesced.result = r;
	say(m, &msg);
	return r == 0 && told_to_move(m);
}

/* Says what became of a move. */
static void end(struct moving *m, enum msg_type type, uint32_t id, uint64_t bytes, int r)
{
	uint64_t patience_ns = m->patience_ns;
	bool longer = r == -EBUSY && patience_ns > PATIENCE_NS;
	const struct msg_moved moved = {.result = r,
					.will_wait = longer,
					.frozen = gate_is_frozen(m->on.gate),
					.bytes = bytes};

	m->patience_ns =
		r == -EBUSY ? MIN(2 * patience_ns, PATIENCE_MAX_NS) : PATIENCE_NS;
	if (r == -EBUSY ? !longer : !swapped(m))
		open_gate(m);
	say_moved(m, type, id, &moved);
	if (longer && wait_longer(m, patience_ns))
		return;
	go_on(m);
}

/* Says LEFT when all that was wanted has left: whoever waits for it need not wait until
 * it is mapped where it went. */
static void on_left(void *arg, uint64_t bytes)
{
	struct moving *m = arg;
	struct msg msg = {.type = MSG_LEFT, .id = m->leaving.id};

	m->leaving.bytes += bytes;
	if (m->leaving.told || m->leaving.bytes < m->leaving.wanted)
		return;
	m->leaving.told = m->leaving.bytes;
	msg.left.bytes = m->leaving.told;
	say(m, &msg);
}

static uint64_t on_device(const struct moving *m)
{
	struct space_residency r;
	uint64_t used, peak, evicted;

	space_usage(m->on.space, &used, &peak);
	space_residency(m->on.space, &r);
	evicted = r.mapped + r.swapped;
	return used - MIN(used, evicted);
}

/* Frees what pools keep and the program does not use, which then need not move. Returns
 * the bytes that the device has back. */
static uint64_t give_back(const struct moving *m)
{
	uint64_t before = on_device(m), after;

	if (!pools_reclaim(m->on.pools))
		return 0;
	space_flush(m->on.space);
	after = on_device(m);
	return before > after ? before - after : 0;
}

static void reclaim(struct moving *m, const struct msg *msg)
{
	const struct msg_reclaim *what = &msg->reclaim;
	uint64_t freed = give_back(m), bytes = what->bytes - MIN(freed, what->bytes);
	struct space_moved moved = {0};
	uint64_t t[3];
	int r;

	t[0] = clock_now_ns();
	if (bytes)
		space_move_prepare(m->on.space, bytes, what->host_room);
	t[1] = clock_now_ns();
	r = bytes ? begin(m) : 0;
	t[2] = clock_now_ns();
	m->leaving.id = msg->id;
	m->leaving.wanted = bytes;
	m->leaving.bytes = m->leaving.told = 0;
	space_on_left(m->on.space, what->urgent ? on_left : NULL, m);
	space_only_copies(m->on.space, gate_is_frozen(m->on.gate) || what->only_copies);
	if (r == 0 && bytes)
		r = space_move_out(m->on.space, bytes, what->host_room,
				   what->swap ? PLACE_SWAPPED : PLACE_MAPPED, &moved);
	space_on_left(m->on.space, NULL, NULL);
	count(&m->on.page->moved_out_bytes, moved.bytes);
	count(&m->on.page->unchanged_bytes, moved.unchanged);
	log_debug("%llu MiB out: host memory %llu us, gate %llu, moving %llu: %d",
		  (unsigned long long)moved.bytes >> 20,
		  (unsigned long long)(t[1] - t[0]) / 1000,
		  (unsigned long long)(t[2] - t[1]) / 1000,
		  (unsigned long long)(clock_now_ns() - t[2]) / 1000, r);
	end(m, MSG_RECLAIMED, msg->id, moved.bytes - m->leaving.told, r);
}

static void restore(struct moving *m, const struct msg *msg)
{
	struct space_moved moved = {0};
	uint64_t t[2];
	int r;

	t[0] = clock_now_ns();
	r = begin(m);
	t[1] = clock_now_ns();
	if (r == 0)
		r = space_move_in(m->on.space, msg->restore.bytes, &moved);
	count(&m->on.page->moved_in_bytes, moved.bytes);
	log_debug("%llu MiB in: gate %llu us, moving %llu: %d",
		  (unsigned long long)moved.bytes >> 20,
		  (unsigned long long)(t[1] - t[0]) / 1000,
		  (unsigned long long)(clock_now_ns() - t[1]) / 1000, r);
	end(m, MSG_RESTORED, msg->id, moved.bytes, r);
}

/* Takes what was granted. The gate may have been opened since, what was swapped having
 * been freed. If the context is lost, lanes are to learn that. */
static void need_granted(struct moving *m, const struct msg *msg)
{
	uint64_t granted = msg->need_granted.bytes;
	struct space_moved moved = {0};
	int r = gate_close(m->on.gate, clock_now_ns() + PATIENCE_NS);

	if (r == 0 && granted)
		r = space_move_in(m->on.space, granted, &moved);
	count(&m->on.page->moved_in_bytes, moved.bytes);
	go_on_without(m);
	if (granted)
		say_granted_moved(m, msg->id, moved.bytes, r);
}

/*
 * Work under way may wait for the very process that is to have the memory, so this waits
 * for it a little only; lanes get in between.
 */
static int make_resident(struct moving *m, uint64_t granted, struct space_moved *ret)
{
	int r = -EBUSY;

	for (unsigned i = 1; i < RESIDENT_TRIES && r == -EBUSY; i++)
		r = gate_close(m->on.gate, clock_now_ns() + PATIENCE_NS);
	if (r == -EBUSY)
		r = begin(m);
	return r < 0 ? r : space_make_resident(m->on.space, m->residence.c, granted, ret);
}

/* Nothing granted: there is no room, or nothing is evicted any more. */
static void resident_granted(struct moving *m, const struct msg *msg)
{
	bool refused = msg->resident_granted.result < 0;
	uint64_t granted = refused ? 0 : msg->resident_granted.bytes;
	struct space_moved moved = {0};
	int r = granted ? make_resident(m, granted, &moved) : refused ? -ENOMEM : 0;

	count(&m->on.page->moved_in_bytes, moved.bytes);
	/* Memory that is shared in spite of that has to be mapped. */
	if (r < 0 || !swapped(m))
		go_on_without(m);
	if (granted)
		say_granted_moved(m, msg->id, moved.bytes, r);
	go_on(m);
	pthread_mutex_lock(&m->lock);
	m->residence.result = r;
	m->residence.done = true;
	pthread_cond_broadcast(&m->done_cond);
	pthread_mutex_unlock(&m->lock);
}

static void keep_ready(struct moving *m, const struct msg *msg)
{
	space_host_pool_set(m->on.space, msg->prealloc.bytes);
}

static uint64_t patience_of(const struct quiet *q)
{
	uint64_t most = MIN(q->wait->us * NSEC_PER_USEC, PATIENCE_MAX_NS);

	if (q->wait->us && q->wait->keep)
		return MIN(most, q->tried ? PATIENCE_NS : KEEP_PATIENCE_NS);
	if (q->wait->us)
		return most;
	return q->tried ? MIN(PATIENCE_NS << MIN(q->tried, 5u), PATIENCE_MAX_NS)
			: STILL_PATIENCE_NS;
}

/* Waits for the session's work to end or, if it may take as long as it likes, has it stand still:
 * a kernel may be waiting for the program, and that for memory which the kernel has. */
static int get_quiet(struct moving *m, bool *ret_frozen)
{
	uint64_t deadline = clock_now_ns() + patience_of(&m->quiet);
	int r;

	*ret_frozen = false;
	if (m->quiet.wait->us && !m->quiet.wait->keep)
		return gate_close(m->on.gate, deadline);
	r = gate_close_begin(m->on.gate, deadline);
	if (r != -EBUSY)
		return r;
	r = gate_freeze(m->on.gate, clock_now_ns() + PATIENCE_NS);
	*ret_frozen = r == 0;
	if (r == -EBUSY)
		gate_open(m->on.gate);
	return r;
}

/* Whether anything goes on, or in, when the gate opens. */
static bool is_left(const struct moving *m)
{
	return m->quiet.wait->begins || gate_is_still(m->on.gate) ||
	       gate_wanted(m->on.gate);
}

static bool is_over(const struct quiet *q)
{
	return q->wait->us && (!q->wait->keep || clock_now_ns() >= q->until_ns);
}

/* Does a lane's work, or has another try after what weftd wants meanwhile: nobody else is to
 * wait for a kernel that does not end. */
static void do_quiet(struct moving *m, const struct msg *msg)
{
	bool frozen;
	int r = get_quiet(m, &frozen);

	if (r == 0)
		r = m->quiet.work(m->quiet.what);
	m->kept = r == 0 && m->quiet.wait->keep && is_left(m);
	m->quiet.wait->still = m->kept;
	if (frozen) /* nothing was swapped, or the gate would have been closed */
		go_on_without(m);
	else if (r != -EBUSY && !swapped(m))
		open_gate(m);
	if (r != -EBUSY && !frozen)
		go_on(m);
	pthread_mutex_lock(&m->lock);
	m->quiet.tried++;
	if (r == -EBUSY && !m->ending && !is_over(&m->quiet)) {
		m->pending |= 1u << JOB_QUIET;
	} else {
		m->quiet.result = r;
		m->quiet.done = true;
		pthread_cond_broadcast(&m->done_cond);
	}
	pthread_mutex_unlock(&m->lock);
}

static void (*const jobs[])(struct moving *m, const struct msg *msg) = {
	[JOB_NEED] = need_granted,   [JOB_MAKE_RESIDENT] = resident_granted,
	[JOB_RECLAIM] = reclaim,     [JOB_RESTORE] = restore,
	[JOB_PREALLOC] = keep_ready, [JOB_QUIET] = do_quiet,
};
static_assert(ARRAY_SIZE(jobs) == JOB_NUM, "each is done");

static void *moving_main(void *arg)
{
	struct moving *m = arg;
	struct msg msg;
	enum job job;

	pthread_mutex_lock(&m->lock);
	while (!m->ending) {
		if (m->pending) {
			job = (enum job)__builtin_ctz(m->pending);
			m->pending &= ~(1u << job);
			msg = m->jobs[job];
			pthread_mutex_unlock(&m->lock);
			jobs[job](m, &msg);
			pthread_mutex_lock(&m->lock);
		} else if (m->wanted) {
			m->wanted = false;
			pthread_mutex_unlock(&m->lock);
			go_on(m);
			pthread_mutex_lock(&m->lock);
		} else {
			pthread_cond_wait(&m->cond, &m->lock);
		}
	}
	pthread_mutex_unlock(&m->lock);
	return NULL;
}

/* ---- on others ---- */

/* Wakes the thread: a lane waits at the gate. */
static void on_wanted(void *arg)
{
	struct moving *m = arg;

	pthread_mutex_lock(&m->lock);
	m->wanted = true;
	pthread_cond_signal(&m->cond);
	pthread_mutex_unlock(&m->lock);
}

/* Has weftd make memory of c resident, on a lane outside the gate; waits for that. */
static int on_make_resident(void *arg, struct backing *c, uint64_t bytes)
{
	struct moving *m = arg;
	int r;

	pthread_mutex_lock(&m->lock);
	while (m->residence.c)
		pthread_cond_wait(&m->done_cond, &m->lock);
	m->residence =
		(struct residence){.c = c, .bytes = bytes, .id = broker_link_id(m->link)};
	r = ask_residence_locked(m);
	while (r == 0 && !m->residence.done)
		pthread_cond_wait(&m->done_cond, &m->lock);
	if (r == 0)
		r = m->residence.result;
	m->residence = (struct residence){0};
	pthread_cond_broadcast(&m->done_cond);
	pthread_mutex_unlock(&m->lock);
	return r;
}

/* Has the thread do a lane's work, and waits for that: managed_quiet. */
static int on_quiet(void *arg, struct managed_wait *wait, int (*work)(void *what),
		    void *what)
{
	struct moving *m = arg;
	int r;

	pthread_mutex_lock(&m->lock);
	while (m->quiet.work)
		pthread_cond_wait(&m->done_cond, &m->lock);
	m->quiet = (struct quiet){.work = work,
				  .what = what,
				  .wait = wait,
				  .until_ns = clock_now_ns() + wait->us * NSEC_PER_USEC};
	m->pending |= 1u << JOB_QUIET;
	pthread_cond_signal(&m->cond);
	while (!m->quiet.done)
		pthread_cond_wait(&m->done_cond, &m->lock);
	r = m->quiet.result;
	m->quiet = (struct quiet){0};
	pthread_cond_broadcast(&m->done_cond);
	pthread_mutex_unlock(&m->lock);
	return r;
}

int moving_new(struct session *s, struct broker_link *link, bool evicts,
	       struct moving **ret_m)
{
	struct moving *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	sess_parts(s, &m->on);
	m->s = s;
	m->link = link;
	m->evicts = evicts;
	m->patience_ns = PATIENCE_NS;
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->cond, NULL);
	pthread_cond_init(&m->done_cond, NULL);
	gate_on_wanted(m->on.gate, on_wanted, m);
	r = -pthread_create(&m->thread, NULL, moving_main, m);
	if (r < 0) {
		gate_on_wanted(m->on.gate, NULL, NULL);
		free(m);
		return r;
	}
	space_on_make_resident(m->on.space, on_make_resident, m);
	managed_on_quiet(m->on.managed, on_quiet, m);
	*ret_m = m;
	return 0;
}

void moving_free(struct moving *m)
{
	if (!m)
		return;
	gate_on_wanted(m->on.gate, NULL, NULL);
	space_on_make_resident(m->on.space, NULL, NULL);
	managed_on_quiet(m->on.managed, NULL, NULL);
	pthread_mutex_lock(&m->lock);
	m->ending = true;
	pthread_cond_signal(&m->cond);
	pthread_mutex_unlock(&m->lock);
	pthread_join(m->thread, NULL);
	m->kept = false;
	if (gate_is_frozen(m->on.gate)) /* or it would never end */
		go_on_without(m);
	pthread_cond_destroy(&m->done_cond);
	pthread_cond_destroy(&m->cond);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

static int take_locked(struct moving *m, enum job job, const struct msg *msg)
{
	/* Only the size of what is kept ready may change before it was looked at. */
	if (m->pending & 1u << job && job != JOB_PREALLOC)
		return -EPROTO;
	m->jobs[job] = *msg;
	m->pending |= 1u << job;
	pthread_cond_signal(&m->cond);
	return 0;
}

/* *asked: the id of the question that is not answered, 0 if there is none. */
static int answered_locked(struct moving *m, enum job job, uint32_t *asked,
			   const struct msg *msg)
{
	if (!*asked || msg->id != *asked)
		return -EPROTO;
	*asked = 0;
	return take_locked(m, job, msg);
}

static int told_locked(struct moving *m, const struct msg *msg)
{
	switch (msg->type) {
	case MSG_RECLAIM:
		return take_locked(m, JOB_RECLAIM, msg);
	case MSG_RESTORE:
		return take_locked(m, JOB_RESTORE, msg);
	case MSG_PREALLOC:
		return take_locked(m, JOB_PREALLOC, msg);
	case MSG_NEED_GRANTED:
		return answered_locked(m, JOB_NEED, &m->need, msg);
	case MSG_RESIDENT_GRANTED:
		return answered_locked(m, JOB_MAKE_RESIDENT, &m->residence.id, msg);
	default:
		return -EPROTO;
	}
}

int moving_told(struct moving *m, const struct msg *msg)
{
	int r;

	if (!m->evicts)
		return -EPROTO;
	broker_link_told(m->link, msg);
	pthread_mutex_lock(&m->lock);
	r = told_locked(m, msg);
	pthread_mutex_unlock(&m->lock);
	return r;
}

int moving_resume(struct moving *m, uint32_t id)
{
	int r;

	pthread_mutex_lock(&m->lock);
	r = broker_link_resume(m->link, id, sess_number(m->s), m->evicts);
	if (r == 0 && m->need)
		ask_need_locked(m);
	if (r == 0 && m->residence.id)
		r = ask_residence_locked(m);
	pthread_mutex_unlock(&m->lock);
	return r;
}
