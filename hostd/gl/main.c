/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weft-gl: draws for one guest program. weftd starts it, as it does a weft-worker, when a
 * guest comes that wants graphics; it opens OpenGL on the daemon's GPU, gives up every
 * privilege, says READY and waits for its guest. The main thread draws, since contexts of
 * OpenGL are a thread's; another one listens to weftd, and ends the process when the guest has
 * gone or drawing does not end. The process is the unit of clean-up.
 *
 * #syscalls: recvmsg poll close
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/macros.h"
#include "gl/display.h"
#include "gl/meter.h"
#include "gl/profile.h"
#include "gl/renderer.h"
#include "gl/serve.h"
#include "host.h"
#include "ipc/msg.h"
#include "ipc/page.h"
#include "util/sandbox.h"
#include "worker/broker_link.h"
#include "worker/window.h"

/* One lane. */
#define WINDOW_BYTES (16ull << 20)
#define SPIN_US      50u
#define FILES_MAX    256
/* Limit of a command: a driver ends what hangs after a few seconds as well. */
#define HANG_NS (10 * NSEC_PER_SEC)
#define LOOK_MS 1000

struct options {
	bool soft;
	unsigned threads, spin_us;
	struct sandbox sandbox;
};

struct gl {
	struct options opt;
	struct broker_link *link;
	struct worker_page *page;
	struct host_window window;
	struct msg_attach attach; /* once its session is not 0 */
	int from, window_fd; /* where the guest's socket comes from, its VM's window */
	int sock;            /* the guest's; the lane's from then on */
	struct serve serve;
	struct meter meter;
};

/* ---- weftd ---- */

static int take_attach(struct gl *g, const struct msg *m, int *fd0, int *fd1)
{
	if (g->attach.session || *fd0 < 0 ||
	    !(m->attach.hello.offers & WIRE_HELLO_GRAPHICS))
		return -EPROTO;
	g->attach = m->attach;
	g->from = fd_steal(fd0);
	g->window_fd = fd_steal(fd1);
	return 0;
}

static int say(uint16_t type, uint32_t id)
{
	const struct msg m = {.type = type, .id = id};

	return msg_send(MSG_FD, &m, -1, -1);
}

/* Hears one message. Either thread, while the other one does not. */
static int hear(struct gl *g)
{
	_cleanup_close_ int fd0 = -1, fd1 = -1;
	struct msg m;
	int r = msg_recv(MSG_FD, &m, &fd0, &fd1);

	if (r < 0)
		return r == -EAGAIN || r == -EINTR ? 0 : r;
	switch (m.type) {
	case MSG_ATTACH:
		return take_attach(g, &m, &fd0, &fd1);
	case MSG_LANE:
		/* A session of graphics has one. */
		atomic_fetch_add(&g->page->lanes_ended, 1);
		return 0;
	case MSG_CHARGED:
	case MSG_WMEM_CHARGED:
		return broker_link_answer(g->link, &m, -1);
	case MSG_PROBE:
		return say(MSG_ALIVE, m.id);
	case MSG_RESUME:
		return broker_link_resume(g->link, m.id, g->attach.session, false);
	case MSG_HOLDERS: {
		const struct msg none = {.type = MSG_HOLDERS_LIST};

		return msg_send(MSG_FD, &none, -1, -1);
	}
	case MSG_PREALLOC:
	case MSG_SLICE:
	case MSG_TPCS:
	case MSG_TPC_MAP:
		return 0; /* of kernels and their memory */
	case MSG_PACE:
		meter_pace(&g->meter, &m.pace);
		return 0;
	default:
		return -EPROTO;
	}
}

__attribute__((noreturn)) static void end(struct gl *g, int status)
{
	(void)say(MSG_ENDING, 0);
	log_debug("session %llu ends", (unsigned long long)g->attach.session);
	_exit(status);
}

static void end_what_hangs(struct gl *g)
{
	/* A rasteriser draws within a command, a GPU after it. */
	uint64_t command = atomic_load(&g->serve.since_ns);
	uint64_t fence = meter_waits_since(&g->meter), now = clock_now_ns();

	if ((!command || now < command + HANG_NS) && (!fence || now < fence + HANG_NS))
		return;
	log_warning("session %llu: drawing has not ended for 10 s",
		    (unsigned long long)g->attach.session);
	end(g, EXIT_HANGS);
}

/* Beside the thread that draws. */
static void *watch(void *arg)
{
	struct gl *g = arg;
	struct pollfd p[] = {{.fd = MSG_FD, .events = POLLIN},
			     {.fd = g->sock, .events = POLLRDHUP},
			     {.fd = g->meter.wake, .events = POLLIN}};
	int r = 0, ms;

	while (r >= 0) {
		ms = meter_look(&g->meter);
		if (poll(p, ARRAY_SIZE(p), ms < 0 ? LOOK_MS : MIN(ms, LOOK_MS)) < 0 &&
		    errno != EINTR)
			break;
		if (p[0].revents)
			r = hear(g);
		if (p[1].revents)
			end(g, 0);
		end_what_hangs(g);
	}
	_exit(r == -ENODATA ? 0 : 1);
}

/* ---- the guest ---- */

/* Waits for weftd to say who comes, and then for the listener to pass the socket on. */
static int await_guest(struct gl *g)
{
	while (g->sock < 0) {
		struct pollfd p[] = {{.fd = MSG_FD, .events = POLLIN},
				     {.fd = g->from, .events = POLLIN}};
		_cleanup_close_ int other = -1;
		struct msg m;
		int r = 0;

		if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
			return -errno;
		if (p[1].revents) {
			r = msg_recv(g->from, &m, &g->sock, &other);
			if (r == 0 && (m.type != MSG_GUEST || g->sock < 0))
				r = -ENODATA;
		} else if (p[0].revents) {
			r = hear(g);
		}
		if (r < 0 && r != -EAGAIN && r != -EINTR)
			return r;
	}
	closep(&g->from);
	return 0;
}

static int open_lane(struct gl *g)
{
	struct wire_welcome welcome = {.session = g->attach.number};
	struct host_lane_opts opts = {
		.hello = &g->attach.hello,
		.base = &welcome,
		.window = &g->window,
		.spin_us = g->opt.spin_us,
	};
	struct msg opened = {.type = MSG_OPENED};
	int r;

	memcpy(welcome.token, g->attach.token, sizeof(welcome.token));
	window_open(&g->window, &g->attach, g->window_fd, WINDOW_BYTES, 0);
	r = host_lane_new(g->sock, &opts, &g->serve.lane);
	if (r < 0)
		return r;
	atomic_store(&g->page->lanes, 1);
	snprintf(opened.opened.carrier, sizeof(opened.opened.carrier), "%s",
		 host_lane_carrier(g->serve.lane));
	return msg_send(MSG_FD, &opened, -1, -1);
}

static int run(struct gl *g)
{
	struct accounts accounts = broker_link_ops(g->link);
	pthread_t t;
	int r = await_guest(g);

	if (r == 0)
		r = open_lane(g);
	if (r == 0)
		r = -pthread_create(&t, NULL, watch, g);
	if (r == 0)
		r = renderer_begin(g->serve.renderer, &accounts, g->attach.hello.name);
	return r < 0 ? r : serve(&g->serve);
}

/* ---- start ---- */

static int map_page(struct gl *g)
{
	g->page = mmap(NULL, WORKER_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
		       MSG_PAGE_FD, 0);
	if (g->page == MAP_FAILED)
		return -errno;
	close(MSG_PAGE_FD);
	g->serve.page = g->page;
	g->serve.meter = &g->meter;
	return meter_init(&g->meter, g->page);
}

static int start(struct gl *g, const char **ret_why)
{
	struct sandbox *box = &g->opt.sandbox;
	int r;

	box->kind = g->opt.soft ? SANDBOX_GL_SOFT : SANDBOX_GL_CUDA;
	r = sandbox_files(box);
	if (r == 0)
		r = broker_link_new(MSG_FD, &g->link);
	if (r == 0)
		r = map_page(g);
	if (r < 0)
		return r;
	broker_link_set_credit(g->link, &g->page->credit);
	broker_link_set_wmem(g->link, &g->page->wmem);
	/* The daemon's GPU is its first: CUDA_VISIBLE_DEVICES says which. */
	r = display_open(g->opt.soft ? -1 : 0, g->opt.threads, ret_why);
	if (r < 0)
		return r;
	profile_open();
	r = renderer_open(&g->meter, &g->serve.renderer);
	if (r == -ENODEV)
		*ret_why = "virglrenderer does not start";
	return r < 0 ? r : sandbox_enter(box);
}

static int say_ready(void)
{
	const struct msg m = {.type = MSG_READY, .ready = {.version = MSG_VERSION}};

	return msg_send(MSG_FD, &m, -1, -1);
}

static void usage(FILE *f)
{
	fputs("usage: weft-gl [OPTION]...\n"
	      "Draws for one guest program. Started by weftd; see weft-worker(8).\n\n"
	      "  --device soft|cuda    the software rasteriser, or the GPU\n"
	      "  --threads N           host threads of the rasteriser\n"
	      "  --user NAME|UID:GID   whom to become\n"
	      "  --own-user            nobody else is that user\n"
	      "  --sandbox on|log|off  what is done about forbidden system calls\n"
	      "  --spin-us N           how long to poll for a command before sleeping\n"
	      "  -h, --help\n",
	      f);
}

static int parse_number(const char *text, unsigned *ret)
{
	char *rest;
	unsigned long n = strtoul(text, &rest, 10);

	if (rest == text || *rest || n > 1u << 20)
		return -EINVAL;
	*ret = (unsigned)n;
	return 0;
}

static int parse_option(int c, struct options *o)
{
	switch (c) {
	case 'h':
		usage(stdout);
		exit(0);
	case 'd':
		o->soft = strcmp(optarg, "cuda") != 0;
		return o->soft && strcmp(optarg, "soft") != 0 ? -EINVAL : 0;
	case 'j':
		return parse_number(optarg, &o->threads);
	case 's':
		return parse_number(optarg, &o->spin_us);
	case 'U':
		o->sandbox.user = optarg;
		return 0;
	case 'o':
		o->sandbox.own_user = true;
		return 0;
	case 'S':
		return sandbox_mode_parse(optarg, &o->sandbox.mode);
	default:
		return -EINVAL;
	}
}

static int parse_options(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{"help", no_argument, NULL, 'h'},
		{"device", required_argument, NULL, 'd'},
		{"threads", required_argument, NULL, 'j'},
		{"spin-us", required_argument, NULL, 's'},
		{"user", required_argument, NULL, 'U'},
		{"own-user", no_argument, NULL, 'o'},
		{"sandbox", required_argument, NULL, 'S'},
		{},
	};
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) >= 0) {
		if (parse_option(c, o) < 0)
			return -EINVAL;
	}
	return optind == argc ? 0 : -EINVAL;
}

int main(int argc, char **argv)
{
	static struct gl g = {
		.opt = {.soft = true,
			.spin_us = SPIN_US,
			.sandbox = {.files = FILES_MAX}},
		.from = -1,
		.window_fd = -1,
		.sock = -1,
	};
	const char *why = NULL;
	int r;

	log_set_program("weft-gl");
	if (parse_options(argc, argv, &g.opt) < 0) {
		usage(stderr);
		return 64;
	}
	signal(SIGPIPE, SIG_IGN);
	r = sandbox_early(MSG_PAGE_FD + 1);
	if (r == 0)
		r = start(&g, &why);
	if (r < 0) {
		log_error("cannot start: %s", why ? why : strerror(-r));
		return 1;
	}
	r = say_ready();
	if (r == 0)
		r = run(&g);
	if (r < 0 && r != -ENODATA)
		log_info("ends: %s", strerror(-r));
	end(&g, r == -EPROTO ? EXIT_BROKEN : r < 0 && r != -ENODATA ? 1 : 0);
}
