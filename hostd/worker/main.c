/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weft-worker: one guest process's end of the path. weftd starts it with one end of a
 * socket pair; it opens the device, gives up every privilege, says READY and waits for
 * its guest. The main thread listens to weftd and watches for lanes whose guest has gone
 * while their thread is busy; each lane has a thread of its own (session/lane_loop.c).
 *
 * The process is the unit of clean-up: when the session ends, for whatever reason, it
 * exits, and the kernel takes back memory, kernels in flight and sockets. It only gives
 * device memory back itself before that, if nothing runs any more: others wait for it.
 *
 * #syscalls: recvmsg sendmsg epoll_ctl close clone nanosleep memfd_create write
 */
#include <errno.h>
#include <pthread.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/macros.h"
#include "device/rewrite/rewrite.h"
#include "ipc/msg.h"
#include "ipc/page.h"
#include "ipc/trace.h"
#include "host.h"
#include "memory/hostmem.h"
#include "memory/move.h"
#include "memory/space.h"
#include "memory/touch.h"
#include "session/gate.h"
#include "session/session.h"
#include "worker/arrival.h"
#include "worker/broker_link.h"
#include "worker/extents.h"
#include "worker/meter.h"
#include "worker/moving.h"
#include "worker/options.h"
#include "worker/window.h"
#include "util/epoll.h"
#include "util/sandbox.h"

#define HEAP_KEEPS (256 << 10) /* bytes */

/* Lanes of a session that has no VM's window, for 160 threads; the rest of its file is
 * host memory that the guest asks for. Only what is used takes memory. */
#define WINDOW_BYTES (512ull << 20)
/* Data of the main loop's events; lanes are EV_LANE + their number, and arrivals
 * EV_ARRIVAL + theirs. */
enum {
	EV_CTL,
	EV_ACTIVE,
	EV_LANE,
	EV_ARRIVAL = EV_LANE + SESS_LANES_MAX,
};

struct worker {
	struct options opt;
	struct session *s;
	struct sess_parts on;
	uint64_t overhead; /* device memory of its contexts */
	struct broker_link *link;
	struct moving *moving;
	int epoll;
	int wake; /* an eventfd: something runs, measure it */
	struct meter meter;
	struct host_window window;
	struct wire_welcome welcome; /* what all lanes are told */
	bool attached;
	bool timed; /* the process ends by itself, whatever its threads do */
	struct arrivals arrivals; /* lanes whose sockets are on their way */
	_Atomic bool settled;     /* the session has ended, and nothing of it runs */
	const char *carrier;      /* of the lane made last */
	_Atomic bool gone[SESS_LANES_MAX]; /* the guest has closed this lane */
	uint32_t times[SESS_LANES_MAX];    /* how often the number was given out */
};

/* ---- the end ---- */

/* Limits of the two stages of an end: what the program left running ends, and the device
 * has its memory back. Nothing is waited for longer. */
#define SETTLE_NS    (50 * NSEC_PER_MSEC)
#define GIVE_BACK_NS NSEC_PER_SEC
/* Looks of one that is shared, whose end with work on the device would be others' as well:
 * weftd has that taken off. */
#define SHARED_LOOKS 100

static void *exit_in_time(void *arg)
{
	const struct timespec settle = {.tv_nsec = SETTLE_NS};
	const struct timespec give_back = {.tv_sec = GIVE_BACK_NS / NSEC_PER_SEC};
	struct worker *w = arg;

	for (int i = 0; i < (w->opt.cfg.shared ? SHARED_LOOKS : 1); i++) {
		nanosleep(&settle, NULL);
		if (atomic_load(&w->settled))
			break;
	}
	if (atomic_load(&w->settled))
		nanosleep(&give_back, NULL);
	_exit(sess_end_reason(w->s) ? 2 : 0);
}

/* Runs first, since anything may stand in the way of ending. The device takes a while to
 * take back what a process has, and weftd is to have others wait for that. */
static void on_session_ending(void *arg)
{
	const struct msg m = {.type = MSG_ENDING};
	struct worker *w = arg;
	pthread_t t;

	w->timed = pthread_create(&t, NULL, exit_in_time, w) == 0;
	(void)msg_send(MSG_FD, &m, -1, -1);
}

/*
 * The kernel takes 0.1 s for what a process has, but 2 ms for each piece of host memory
 * while others' kernels use memory of the host: 2.9 s for 8 GiB here and there. Others
 * can have the device's 0.03 s after the program has gone.
 */
static void give_back(struct worker *w)
{
	sess_drain(w->s);
	atomic_store(&w->settled, true);
	space_give_back(w->on.space);
	log_debug("session %llu: gave memory back",
		  (unsigned long long)sess_number(w->s));
}

/* weftd is to know of a fault that is others' as well, which one is not that is to end. */
static void on_lost(void *arg, uint32_t error)
{
	const struct msg m = {.type = MSG_LOST};
	struct worker *w = arg;

	if (w->opt.cfg.shared && error != CUDA_ERROR_MPS_CLIENT_TERMINATED)
		(void)msg_send(MSG_FD, &m, -1, -1);
}

static void on_session_end(void *arg)
{
	struct worker *w = arg;
	int reason = sess_end_reason(w->s);

	log_debug("session %llu ended: %s", (unsigned long long)sess_number(w->s),
		  reason ? strerror(-reason) : "guest has gone");
	meter_end(&w->meter);
	if ((!reason || w->opt.cfg.shared) && w->timed)
		give_back(w);
	_exit(reason ? 2 : 0);
}

/* ---- lanes ---- */

static int add_lane(struct worker *w, int sock, const struct wire_hello *hello)
{
	struct host_lane_opts opts = {
		.hello = hello,
		.base = &w->welcome,
		.window = &w->window,
		.spin_us = w->opt.spin_us,
	};
	struct epoll_event ev = {.events = EPOLLRDHUP};
	int index = sess_lane_reserve(w->s), r;
	struct lane *l;

	if (index < 0) {
		(void)host_refuse(sock, index);
		return index;
	}
	opts.index = (unsigned)index;
	r = host_lane_new(sock, &opts, &l);
	if (r < 0) {
		sess_lane_unreserve(w->s, opts.index);
		return r;
	}
	atomic_store(&w->gone[index], false);
	/* The descriptor leaves the set by itself when the lane closes it; an event that
	 * comes late is known by its count. */
	ev.data.u64 = (uint64_t)++w->times[index] << 32 | (EV_LANE + opts.index);
	if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, sock, &ev) < 0)
		log_debug("lane %u is not watched: %s", opts.index, strerror(errno));
	w->carrier = host_lane_carrier(l);
	r = sess_lane_start(w->s, l, opts.index);
	if (r < 0) {
		sess_lane_unreserve(w->s, opts.index);
		lane_free(l);
		return r;
	}
	return 0;
}

static bool has_guest(void *arg, unsigned lane)
{
	const struct worker *w = arg;

	return !atomic_load(&w->gone[lane]);
}

/* Returns true if any lane has a guest. A lane's thread that ends closes its socket, so
 * that no event comes of it, in the moment in which it takes the lane out. */
static bool guest_is_here(struct worker *w)
{
	return sess_any_lane(w->s, has_guest, w);
}

/*
 * The guest has closed a lane's socket. Its thread notices when it next looks, but it may
 * be waiting for a kernel that never ends: once no lane has a guest, the session is over.
 */
static void lane_gone(struct worker *w, unsigned index, uint32_t times)
{
	if (times != w->times[index])
		return;
	atomic_store(&w->gone[index], true);
	if (!guest_is_here(w))
		sess_end(w->s, 0);
}

/* ---- work ---- */

static void on_active(void *arg)
{
	struct worker *w = arg;
	uint64_t one = 1;

	(void)fd_write_full(w->wake, &one, sizeof(one));
}

/* A worker that cannot is not to run elsewhere. */
static int take_tpcs(struct worker *w, const struct msg_tpcs *m)
{
	const struct dev_tpcs tpcs = {
		{m->bits[0], m->bits[1]}, .n = m->n, .n_in_gpc = m->n_in_gpc};
	const struct device_ops *ops = w->on.ops;

	return ops->run_on && ops->run_on(w->on.dev, &tpcs) ? 0 : -EOPNOTSUPP;
}

static int take_tpc_map(struct worker *w, const struct msg_tpc_map *m)
{
	struct dev_tpc_map map = {.n = m->n};

	if (w->attached)
		return -EPROTO;
	memcpy(map.gpc, m->gpc, sizeof(m->gpc));
	memcpy(map.bit, m->bit, sizeof(m->bit));
	if (w->on.ops->know_tpcs)
		w->on.ops->know_tpcs(w->on.dev, &map);
	return 0;
}

static int take_fill(struct worker *w, bool on)
{
	bool done;

	if (w->attached)
		return -EPROTO;
	done = sess_fill(w->s, on);
	if (!done)
		log_warning("a filler does not start: long kernels go on beyond caps");
	atomic_store(&w->on.page->pending, on && done ? PAGE_KERNELS : PAGE_NO_WORK);
	return 0;
}

static void take_slice(struct worker *w, const struct msg_slice *m)
{
	const struct device_ops *ops = w->on.ops;

	gate_gather(w->on.gate, m->gather_us * NSEC_PER_USEC);
	if (m->us != atomic_load(&w->on.page->slice_us) && ops->slice &&
	    ops->slice(w->on.dev, m->us))
		atomic_store(&w->on.page->slice_us, m->us);
}

static int start_metering(struct worker *w)
{
	uint64_t n;

	meter_begin(&w->meter);
	return fd_read_full(w->wake, &n, sizeof(n));
}

/* ---- what weftd says ---- */

static uint64_t host_bytes(uint64_t limit)
{
	return ALIGN_DOWN(MIN(limit, DEVICE_HOST_SIZE), DEVICE_HOST_GRAIN);
}

/* Host memory can be shared with a guest that has mapped the file it lies in. */
static int open_hostmem(struct worker *w, uint64_t limit)
{
	struct hostmem_file f = {
		.fd = w->window.fd,
		.first = WINDOW_BYTES,
		.size = MIN(limit, DEVICE_HOST_SIZE),
		.placed = w->window.key != 0,
	};

	if (w->window.fd < 0 || !limit)
		return 0;
	return sess_set_hostmem(w->s, &f);
}

static int attach(struct worker *w, const struct msg_attach *a, int sock, int window_fd)
{
	struct msg opened = {.type = MSG_OPENED};
	int r;

	if (a->hello.offers & WIRE_HELLO_MONITOR && sess_monitor(w->s) < 0)
		return -EAGAIN;
	window_open(&w->window, a, window_fd, WINDOW_BYTES, host_bytes(a->host_limit));
	r = open_hostmem(w, a->host_limit);
	if (r < 0)
		return r;
	sess_set_status(w->s, host_status(&w->window));
	w->welcome = (struct wire_welcome){
		.session = a->number,
		.band_base = DEVICE_BAND_BASE,
		.band_size = DEVICE_BAND_SIZE,
	};
	memcpy(w->welcome.token, a->token, sizeof(w->welcome.token));
	r = add_lane(w, sock, &a->hello);
	if (r < 0)
		return r;
	snprintf(opened.opened.carrier, sizeof(opened.opened.carrier), "%s", w->carrier);
	return msg_send(MSG_FD, &opened, -1, -1);
}

/* Counts a lane as ended that never began: weftd counts it from when it tells of it. */
static void count_lost(struct worker *w)
{
	atomic_fetch_add_explicit(&w->on.page->lanes_ended, 1, memory_order_relaxed);
}

/* Takes a guest's socket. The first one begins the session; a lane that cannot be is the
 * guest's matter only. */
static int arrive(struct worker *w, unsigned i)
{
	int sock, window_fd, r;
	struct msg m;

	if (arrivals_take(&w->arrivals, i, &m, &sock, &window_fd) < 0)
		return 0;
	if (m.type == MSG_ATTACH) {
		if (sock >= 0)
			return attach(w, &m.attach, sock, window_fd);
		closep(&window_fd);
		return -ENODATA;
	}
	r = sock < 0 ? -ENODATA : add_lane(w, sock, &m.lane.hello);
	if (r < 0) {
		closep(&sock);
		count_lost(w);
	}
	return 0;
}

/* Answers HOLDERS, before a guest has come: weftd itself opens no device. */
static int tell_holders(struct worker *w)
{
	static struct device_holder has[MSG_HOLDERS_MAX];
	struct msg m = {.type = MSG_HOLDERS_LIST};
	uint32_t n = 0;
	_cleanup_close_ int fd = fd_memfd("weft-holders", sizeof(has));

	static_assert(sizeof(has[0]) == sizeof(struct msg_holder), "are the same");
	if (fd >= 0 && w->on.ops->holders)
		n = w->on.ops->holders(w->on.dev, has, MSG_HOLDERS_MAX);
	if (n && fd_write_full(fd, has, n * sizeof(has[0])) < 0)
		n = 0;
	m.holders_list.n = n;
	return msg_send(MSG_FD, &m, fd, -1);
}

static int say_alive(uint32_t id)
{
	const struct msg m = {.type = MSG_ALIVE, .id = id};

	return msg_send(MSG_FD, &m, -1, -1);
}

/* Before the guest is here: a weftd that was started again asks. */
static int identify(struct worker *w, const struct msg_attach *a)
{
	const struct sess_identity id = {
		.tenant = a->tenant,
		.number = a->session,
		.token = a->token,
	};

	sess_identify(w->s, &id);
	return device_rewrite((enum rewrite_mode)a->rewrite);
}

static int handle_ctl(struct worker *w)
{
	_cleanup_close_ int fd0 = -1, fd1 = -1;
	struct msg m;
	int r = msg_recv(MSG_FD, &m, &fd0, &fd1);

	if (r < 0)
		return r == -EAGAIN || r == -EINTR ? 0 : r;
	switch (m.type) {
	case MSG_ATTACH:
		if (w->attached || fd0 < 0)
			return -EPROTO;
		w->attached = true;
		if (identify(w, &m.attach) < 0)
			return -EPROTO;
		return arrivals_add(&w->arrivals, &m, fd_steal(&fd0), fd_steal(&fd1));
	case MSG_LANE:
		if (!w->attached || fd0 < 0)
			return -EPROTO;
		/* The listener tells the guest if there is no room. */
		if (arrivals_add(&w->arrivals, &m, fd_steal(&fd0), -1) < 0)
			count_lost(w);
		return 0;
	case MSG_CHARGED:
	case MSG_HOST_CHARGED:
	case MSG_WMEM_CHARGED:
	case MSG_MEMORY_LEFT:
	case MSG_TENANT_USAGE:
	case MSG_IPC_EXPORTED:
	case MSG_IPC_OPENED:
	case MSG_IPC_DROPPED:
		return broker_link_answer(w->link, &m, fd_steal(&fd0));
	case MSG_PROBE:
		/* A guest that had gone before was heard of before. */
		return guest_is_here(w) ? say_alive(m.id) : 0;
	case MSG_RECLAIM:
	case MSG_RESTORE:
	case MSG_NEED_GRANTED:
	case MSG_RESIDENT_GRANTED:
	case MSG_PREALLOC:
		return moving_told(w->moving, &m);
	case MSG_RESUME:
		return moving_resume(w->moving, m.id);
	case MSG_SLICE:
		take_slice(w, &m.slice);
		return 0;
	case MSG_TPCS:
		return take_tpcs(w, &m.tpcs);
	case MSG_TPC_MAP:
		return take_tpc_map(w, &m.tpc_map);
	case MSG_FILL:
		return take_fill(w, m.fill.on);
	case MSG_PACE:
		meter_pace(&w->meter, &m.pace);
		return 0;
	case MSG_HOLDERS:
		return w->attached ? -EPROTO : tell_holders(w);
	default:
		return -EPROTO;
	}
}

static int loop(struct worker *w)
{
	struct epoll_event ev[16];
	int r = 0;

	while (r >= 0) {
		int n = epoll_wait_ns(w->epoll, ev, ARRAY_SIZE(ev),
				      meter_look(&w->meter));

		if (n < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n && r >= 0; i++) {
			if ((uint32_t)ev[i].data.u64 == EV_CTL)
				r = handle_ctl(w);
			else if ((uint32_t)ev[i].data.u64 == EV_ACTIVE)
				r = start_metering(w);
			else if ((uint32_t)ev[i].data.u64 >= EV_ARRIVAL)
				r = arrive(w, (uint32_t)ev[i].data.u64 - EV_ARRIVAL);
			else
				lane_gone(w, (uint32_t)ev[i].data.u64 - EV_LANE,
					  ev[i].data.u64 >> 32);
		}
	}
	return r;
}

/* ---- start ---- */

static int map_counters(struct session *s)
{
	struct stat st;
	char *p;

	/* An older weftd's has no room for traces. */
	if (fstat(MSG_PAGE_FD, &st) < 0)
		return -errno;
	p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED,
		 MSG_PAGE_FD, 0);
	if (p == MAP_FAILED)
		return -errno;
	close(MSG_PAGE_FD);
	sess_set_page(s, (void *)p);
	if ((uint64_t)st.st_size >= TRACE_FILE_SIZE)
		sess_set_trace(s, (void *)(p + WORKER_PAGE_SIZE));
	return 0;
}

static int open_events(struct worker *w)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = EV_CTL};

	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	w->arrivals.epoll = w->epoll;
	w->arrivals.first_event = EV_ARRIVAL;
	w->wake = eventfd(0, EFD_CLOEXEC);
	if (w->epoll < 0 || w->wake < 0 ||
	    epoll_ctl(w->epoll, EPOLL_CTL_ADD, MSG_FD, &ev) < 0)
		return -errno;
	ev.data.u64 = EV_ACTIVE;
	return epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->wake, &ev) < 0 ? -errno : 0;
}

/* Prepares for weftd to have some of the session's memory evicted. */
static int prepare_eviction(struct worker *w)
{
	int r;

	space_set_placement(w->on.space, w->opt.placement);
	if (w->opt.turns)
		space_set_turns(w->on.space);
	r = touch_init(w->on.touch);
	if (r == 0 && w->opt.piece_bytes)
		r = space_set_piece(w->on.space, w->opt.piece_bytes);
	return r;
}

/* Starts the thread that moves memory: after the counters are there, before anything is
 * allocated. */
static int start_moving(struct worker *w)
{
	int r = w->opt.placement ? prepare_eviction(w) : 0;

	return r < 0 ? r : moving_new(w->s, w->link, w->opt.placement, &w->moving);
}

static int say_tpc_map(const struct worker *w)
{
	struct msg m = {.type = MSG_TPC_MAP};
	struct dev_tpc_map map;

	if (sess_find_tpcs(w->s, &map) && map.n <= MSG_TPCS_MAX) {
		m.tpc_map.n = map.n;
		memcpy(m.tpc_map.gpc, map.gpc, map.n);
		memcpy(m.tpc_map.bit, map.bit, map.n);
	}
	return msg_send(MSG_FD, &m, -1, -1);
}

static int start(struct worker *w)
{
	struct sandbox *box = &w->opt.sandbox;
	const struct device_ops *ops;
	struct accounts broker;
	_cleanup_free_ char *extents = NULL;
	size_t extents_size;
	int r;

	/* The driver's threads come with the device. */
	box->kind =
		strcmp(w->opt.device, "soft") ? SANDBOX_WORKER_CUDA : SANDBOX_WORKER_SOFT;
	if (w->opt.extents)
		extents = extents_read(w->opt.extents, &extents_size);
	r = sandbox_files(box);
	if (r < 0)
		return r;
	ops = device_ops_by_name(w->opt.device);
	if (ops)
		ops = device_rewritten(ops);
	if (!ops)
		return -ENODEV;
	r = broker_link_new(MSG_FD, &w->link);
	if (r < 0)
		return r;
	/* A granularity below a real GPU's is for the software device. */
	if (w->opt.piece_bytes < SPACE_SLAB)
		w->opt.cfg.granularity = (unsigned)w->opt.piece_bytes;
	broker = broker_link_ops(w->link);
	r = sess_new(ops, &w->opt.cfg, &broker, &w->s);
	if (r < 0)
		return r;
	sess_set_hooks(w->s, &(struct sess_hooks){.ending = on_session_ending,
						  .end = on_session_end,
						  .active = on_active,
						  .lost = on_lost,
						  .arg = w});
	r = map_counters(w->s);
	sess_parts(w->s, &w->on);
	meter_init(&w->meter, w->s);
	if (r == 0)
		broker_link_set_credit(w->link, &w->on.page->credit);
	if (r == 0)
		broker_link_set_wmem(w->link, &w->on.page->wmem);
	if (r == 0)
		r = start_moving(w);
	if (r == 0)
		r = open_events(w);
	if (r < 0)
		return r;
	if (extents)
		sess_set_extents(w->s, extents, extents_size, w->opt.extents);
	if (w->opt.find_tpcs)
		r = say_tpc_map(w);
	if (r < 0)
		return r;
	w->overhead = sess_overhead(w->s);
	if (!strcmp(ops->name, "soft"))
		box->kind = SANDBOX_WORKER_SOFT;
	return sandbox_enter(box);
}

static int say_ready(const struct worker *w)
{
	struct msg m = {
		.type = MSG_READY,
		.ready = {.memory_bytes = w->on.info->memory_bytes,
			  .overhead = w->overhead,
			  .own_memory = !w->on.ops->holders,
			  .version = MSG_VERSION},
	};

	snprintf(m.ready.device, sizeof(m.ready.device), "%s", w->on.info->name);
	return msg_send(MSG_FD, &m, -1, -1);
}

static const char *why_not(const struct worker *w, int error)
{
	const char *why = strcmp(w->opt.device, "soft") ? device_cuda_why() : NULL;

	return why ? why : strerror(-error);
}

/*
 * Has malloc give back to the host what is freed. By itself it keeps larger and larger
 * blocks as a process goes on, and a worker lives as long as its program.
 */
static void give_memory_back(void)
{
	mallopt(M_MMAP_THRESHOLD, HEAP_KEEPS);
	mallopt(M_TRIM_THRESHOLD, HEAP_KEEPS);
}

int main(int argc, char **argv)
{
	static struct worker w;
	int r;

	log_set_program("weft-worker");
	if (options_parse(argc, argv, &w.opt) < 0) {
		options_usage(stderr);
		return 64;
	}
	signal(SIGPIPE, SIG_IGN);
	give_memory_back();
	r = sandbox_early(MAX(w.opt.cfg.runlist_fd, MSG_PAGE_FD) + 1);
	if (r == 0)
		r = start(&w);
	if (r < 0) {
		log_error("cannot start (device %s): %s", w.opt.device, why_not(&w, r));
		return 1;
	}
	r = say_ready(&w);
	if (r == 0)
		r = loop(&w);
	/* Not exit(): threads may be in the device. */
	log_info("ends: %s", r == -ENODATA ? "weftd has gone" : strerror(-r));
	_exit(r == -ENODATA ? 0 : 1);
}
