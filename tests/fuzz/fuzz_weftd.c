/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weftd between clients of its control socket, listeners and workers that were all taken
 * over. Its children are sockets here, and time is made to pass. Input: steps of an
 * operation (1 byte), whose (1 byte) and
 *
 *	a client's bytes: their number (1 byte) and text, of which a "/" is a file in a
 *	directory of our own
 *	a worker's or listener's message: type and three numbers (4 bytes)
 *	other operations: nothing; one of them makes all sessions those of another weftd
 *
 * In the end everything has been given back.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/macros.h"
#include "broker/broker.h"
#include "broker/child/child.h"
#include "broker/compute/tpcs.h"
#include "broker/control.h"
#include "broker/keep/resume.h"
#include "broker/operator/drain.h"
#include "broker/operator/events.h"
#include "broker/listener.h"
#include "broker/guests.h"
#include "broker/loop/aside.h"
#include "broker/loop/loop.h"
#include "broker/memory/prealloc.h"
#include "broker/memory/reclaim.h"
#include "broker/reload.h"
#include "broker/request.h"
#include "broker/tenant.h"
#include "broker/tenants.h"
#include "broker/worker_msg.h"
#include "broker/workers.h"
#include "fds.h"
#include "input.h"
#include "ipc/msg.h"
#include "ipc/page.h"
#include "policies/placement.h"
#include "policies/time.h"
#include "util/conf.h"
#include "wire.h"
#include "worker_says.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MIB       (1ull << 20)
#define CLIENTS   3
#define PEERS     48
#define STEPS     200
#define ROUNDS    8 /* of events after a step */

#define RESUME_ID 7

#define CLOSED_MS 2000 /* within which all is closed, or never */

static struct broker b;
static struct conf conf;
static char dir[] = "/tmp/weft-fuzz-XXXXXX";
static int clients[CLIENTS];
static uint8_t token[16]; /* of the session attached last, or the share made last */
static uint32_t asked;    /* the number of what a worker was asked last */
static uint64_t late_ns;  /* what has passed beside the clock */

/* ---- children ---- */

static struct peer {
	struct child *child; /* NULL: free */
	void (*exit_fn)(struct source *, uint32_t);
	int sock, page;
	bool is_listener, dead;
} peers[PEERS];

int child_spawn(struct broker *br, struct child *c, char *const argv[], const int *fds,
		unsigned n_fds, void (*exit_fn)(struct source *, uint32_t))
{
	static pid_t last = 100;

	for (unsigned i = 0; i < PEERS; i++) {
		if (peers[i].child)
			continue;
		peers[i] = (struct peer){
			.child = c,
			.exit_fn = exit_fn,
			.sock = fcntl(fds[0], F_DUPFD_CLOEXEC, 0),
			.is_listener = !strcmp(argv[0], "weft-listener"),
		};
		if (fd_set_nonblock(peers[i].sock, 1) < 0)
			abort();
		c->pid = ++last;
		c->exit.fd = -1;
		return 0;
	}
	return -EAGAIN;
}

static struct peer *peer_of(const struct child *c)
{
	for (unsigned i = 0; i < PEERS; i++) {
		if (peers[i].child == c)
			return &peers[i];
	}
	return NULL;
}

int child_reap(struct broker *br, struct child *c)
{
	struct peer *p = peer_of(c);

	if (!p)
		return 0;
	close(p->sock);
	p->child = NULL;
	c->pid = 0;
	return p->dead ? SIGKILL : 0;
}

int child_adopt(struct broker *br, struct child *c, const char *program, pid_t pid,
		uint32_t uid, int pidfd, int output,
		void (*exit_fn)(struct source *, uint32_t))
{
	return -EAGAIN; /* there is no store */
}

void child_kill(struct child *c)
{
	struct peer *p = c->pid ? peer_of(c) : NULL;

	if (p)
		p->dead = true;
}

void child_kill_now(struct child *c)
{
	child_kill(c);
}

/* ---- input ---- */

/* No path leads out of our directory. */
static size_t harmless(struct input *in, size_t n, char *out, size_t room)
{
	size_t at = 0;
	char last = 0;

	for (; n && at + sizeof(dir) + 1 < room; n--) {
		char c = (char)take(in);

		if (last == '\\' && (c == 'u' || c == '/'))
			c = '_';
		if (last == '.' && c == '.')
			c = '_';
		if (c == '/')
			at += (size_t)sprintf(out + at, "%s", dir);
		out[at++] = last = c;
	}
	return at;
}

static void client_says(struct input *in, unsigned i)
{
	char text[8192];
	size_t n = harmless(in, take(in), text, sizeof(text));

	if (clients[i] >= 0)
		(void)!send(clients[i], text, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void client_comes(unsigned i)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	if (clients[i] >= 0)
		return;
	strcpy(a.sun_path, b.control_path);
	clients[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (connect(clients[i], (struct sockaddr *)&a, sizeof(a)) < 0)
		closep(&clients[i]), clients[i] = -1;
}

/* The n-th listener, or worker, counted round. */
static struct peer *peer_at(bool is_listener, unsigned n)
{
	struct peer *found[PEERS];
	unsigned k = 0;

	for (unsigned i = 0; i < PEERS; i++) {
		if (peers[i].child && peers[i].is_listener == is_listener &&
		    !peers[i].dead)
			found[k++] = &peers[i];
	}
	return k ? found[n % k] : NULL;
}

/* Sends a message, or what is none. flaw: which byte is wrong, and how; 0: none is. */
static void say(struct peer *p, struct msg *m, int fd, uint8_t flaw)
{
	size_t size = msg_size(m->type) ? msg_size(m->type) : sizeof(*m);

	if (flaw)
		((uint8_t *)m)[flaw % size] ^= flaw;
	(void)fd_send(p->sock, m, size, &fd, fd >= 0);
}

static void worker_says(struct input *in, struct peer *p)
{
	uint8_t type = take(in), v[3] = {take(in), take(in), take(in)};
	struct msg m = worker_says_msg(type, v[0], v[1], token);
	int fd;

	if (!p)
		return;
	m.id = v[2] & 128 ? asked : v[2];
	if (m.type == MSG_RESUMED || m.type == MSG_HAS_HOST || m.type == MSG_HAS_SHARE ||
	    m.type == MSG_HAS_OPEN)
		m.id = RESUME_ID;
	fd = v[2] & 64 ? fds_any(v[1], 4096) : -1;
	say(p, &m, fd, (v[2] & 63) == 63 ? v[1] : 0);
	closep(&fd);
}

static void listener_says(struct input *in, struct peer *p)
{
	struct msg m = {.type = take(in) & 1 ? MSG_GONE : MSG_HELLO};
	uint8_t v[3] = {take(in), take(in), take(in)};
	struct wire_hello *h = &m.hello.hello;

	if (!p)
		return;
	m.id = v[0];
	*h = (struct wire_hello){.magic = WIRE_MAGIC, .version = WIRE_VERSION};
	h->lane = v[1] & 1;
	h->offers = v[1] >> 1;
	h->pid = v[2];
	h->window_key = v[2];
	memset(h->name, v[2], sizeof(h->name) - 1);
	if (h->lane && v[1] & 2)
		memcpy(h->token, token, sizeof(token));
	if (v[2] == 254)
		m.type = v[0];
	say(p, &m, -1, v[2] == 253 ? v[0] : 0);
}

/* Too short, or with descriptors that nobody asked for. */
static void babble(struct peer *p, uint8_t how)
{
	int fds[2] = {fds_any(how, 4096), fds_any(how >> 3, 4096)};
	unsigned n = 0;
	char text[300] = "";

	for (unsigned i = 0; i < 2; i++) {
		if (fds[i] >= 0)
			fds[n++] = fds[i];
	}
	if (p)
		(void)fd_send(p->sock, text, how ? how : sizeof(struct msg), fds, n);
	while (n)
		closep(&fds[--n]);
}

/* ---- weftd ---- */

static void open_weftd(void)
{
	char path[64];

	memset(&b, 0, sizeof(b));
	if (conf_init(&conf) < 0)
		abort();
	free(conf.run_dir);
	conf.run_dir = strdup(dir);
	conf.swap = 512 * MIB;
	conf.pool = 1;
	if (conf_complete(&conf) < 0)
		abort();
	b.conf = &conf;
	b.keep_ready = conf.pool;
	b.host_max = 96 * MIB;
	b.swap = conf.swap;
	b.piece = 2 * MIB;
	b.placement = placement_at(0);
	b.time = time_policy_at(0);
	b.control.fd = b.signals.fd = b.lifeline.fd = b.ready_fd = b.cgroup = -1;
	if (loop_new(&b.loop) < 0)
		abort();
	b.shares_max = 16;
	b.on_message = worker_said;
	b.resume_said = resume_said;
	b.resume_end = resume_end;
	b.serve_guests = guests_match;
	b.on_session_end = drain_ended;
	b.guests = &guests_of_listeners;
	list_init(&b.loud);
	list_init(&b.tenants);
	list_init(&b.workers);
	list_init(&b.leaving);
	list_init(&b.queue);
	list_init(&b.clients);
	list_init(&b.waiters);
	snprintf(path, sizeof(path), "%s/control", dir);
	if (control_open(&b, path, request_handle) < 0)
		abort();
	workers_fill(&b);
	for (unsigned i = 0; i < CLIENTS; i++)
		clients[i] = -1;
	late_ns = 0;
}

/* Runs as loop_run() does, while there is anything. */
static void serve(void)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t now = clock_now_ns() + late_ns;
		int n;

		(void)guests_tick(&b, now);
		(void)workers_tick(&b, now);
		(void)listener_tick(&b, now);
		(void)reclaim_tick(&b, now);
		(void)prealloc_tick(&b, now);
		(void)events_tick(&b, now);
		(void)control_tick(&b, now);
		(void)control_trace_tick(&b, now);
		for (unsigned i = 0; i < PEERS; i++) {
			if (peers[i].child && peers[i].dead)
				peers[i].exit_fn(&peers[i].child->exit, EPOLLIN);
		}
		n = loop_once(b.loop, 0);
		if (n <= 0)
			return;
	}
}

/* Everybody reads what they are told. */
static void hear(void)
{
	char answer[4096];

	for (unsigned i = 0; i < CLIENTS; i++) {
		while (clients[i] >= 0 &&
		       recv(clients[i], answer, sizeof(answer), MSG_DONTWAIT) > 0)
			;
	}
	for (unsigned i = 0; i < PEERS; i++) {
		struct msg m;
		int fd0, fd1;

		while (peers[i].child && msg_recv(peers[i].sock, &m, &fd0, &fd1) == 0) {
			closep(&fd0);
			closep(&fd1);
			if (m.type == MSG_ATTACH)
				memcpy(token, m.attach.token, sizeof(token));
			if (m.type == MSG_IPC_EXPORTED)
				memcpy(token, m.ipc_exported.name, sizeof(token));
			asked = m.id;
		}
	}
}

static void remove_files(void)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
}

static void close_weftd(void)
{
	workers_fini(&b);
	tenants_fini(&b);
	control_fini(&b);
	events_fini(&b);
	tpcs_fini(&b);
	loop_flush(b.loop);
	if (b.granted || b.evicted || b.host || b.n_sessions || !list_empty(&b.waiters) ||
	    !list_empty(&b.tenants) || !list_empty(&b.leaving))
		abort();
	loop_free(b.loop);
	free(b.seen);
	free(b.shares);
	conf_fini(&conf);
	for (unsigned i = 0; i < CLIENTS; i++)
		closep(&clients[i]);
	remove_files();
}

/* All sessions are as those that another weftd has begun. */
static void restart(void)
{
	struct worker *w;

	list_for_each (w, &b.workers, link) {
		if (w->state != WORKER_SESSION || w->resume_id || w->is_held_up)
			continue;
		window_host_drop(&w->tenant->window, w);
		b.host -= w->host_charged;
		w->tenant->host_used -= w->host_charged;
		w->host_charged = 0;
		w->resume_id = RESUME_ID;
		w->resume_by_ns = UINT64_MAX;
		w->tenant->n_resuming++;
	}
}

static void step(struct input *in)
{
	uint8_t op = take(in), who = take(in);
	struct peer *p;

	if (op >= 250) {
		restart();
		return;
	}
	switch (op % 10) {
	case 0:
		client_comes(who % CLIENTS);
		break;
	case 1:
	case 2:
		client_says(in, who % CLIENTS);
		break;
	case 3:
		closep(&clients[who % CLIENTS]);
		clients[who % CLIENTS] = -1;
		break;
	case 4:
	case 5:
		worker_says(in, peer_at(false, who));
		break;
	case 6:
		listener_says(in, peer_at(true, who));
		break;
	case 7:
		p = peer_at(who & 1, who / 2);
		if (p)
			p->dead = true;
		break;
	case 8:
		late_ns += who * 20 * NSEC_PER_MSEC;
		break;
	default:
		babble(peer_at(who & 1, who / 2), take(in));
	}
}

/* True once as many files are open as before: descriptors from children are closed beside
 * the loop (loop/aside.c). */
static bool closed_to(unsigned before)
{
	for (unsigned i = 0; i < CLOSED_MS; i++) {
		if (fds_open() == before)
			return true;
		usleep(1000);
	}
	return false;
}

static void remove_dir(void)
{
	rmdir(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	static bool made;
	unsigned before;

	if (!made && (!mkdtemp(dir) || atexit(remove_dir) || aside_open() < 0))
		abort();
	made = true;
	log_set_level(LOG_LVL_NONE); /* refusals are what is wanted here */
	before = fds_open();
	open_weftd();
	for (unsigned i = 0; i < STEPS && in.n; i++) {
		step(&in);
		serve();
		hear();
	}
	close_weftd();
	if (!closed_to(before))
		abort();
	return 0;
}
