/* SPDX-License-Identifier: Apache-2.0 */
/* Handshake, window and further lanes, with both ends in one process. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "hello.h"
#include "host.h"
#include "link.h"
#include "pair.h"

#define BAND      0x200000000000ull
#define BAND_SIZE (1ull << 30)

/* ---- a host in a thread ---- */

struct host {
	char path[64], address[80];
	int listener, error; /* error: refuse everybody with it */
	struct host_window window;
	_Atomic unsigned lanes;
	_Atomic unsigned drop; /* so many: it dies when it has read the hello */
	bool relay; /* between it and its guests something carries bytes alone */
	pthread_t thread;
	/* Sent instead of what host_lane_new() would say. */
	const struct wire_welcome *forged;
};

static _Atomic unsigned serving;

static void *echo(void *arg)
{
	struct lane *l = arg;
	struct lane_msg m;

	while (lane_recv(l, &m) == 0) {
		uint64_t *b;

		if (m.hdr.flags & WIRE_F_ASYNC)
			continue;
		b = lane_reply_begin(l, 0, 16, 0, NULL);
		if (!b)
			break;
		memcpy(&b[1], m.body, 8);
		if (lane_reply(l) < 0)
			break;
	}
	lane_free(l);
	serving--;
	return NULL;
}

static void answer(struct host *h, int sock)
{
	struct wire_welcome base = {
		.session = 77, .token = {9}, .band_base = BAND, .band_size = BAND_SIZE};
	struct wire_hello hello;
	struct host_lane_opts o = {
		.hello = &hello, .base = &base, .window = &h->window, .spin_us = 20};
	struct lane *l;
	pthread_t t;

	o.index = h->lanes++;
	if (host_hello(sock, 1000, &hello) < 0) {
		close(sock);
		return;
	}
	if (h->drop) {
		h->drop--;
		h->lanes--;
		close(sock);
		return;
	}
	if (h->forged || h->error) {
		if (h->error)
			host_refuse(sock, h->error);
		else
			(void)fd_write_full(sock, h->forged, sizeof(*h->forged));
		close(sock);
		return;
	}
	if (hello.lane) /* only with the token of lane 0 */
		cr_assert_eq(memcmp(hello.token, base.token, sizeof(hello.token)), 0);
	if (host_lane_new(sock, &o, &l) < 0) {
		close(sock);
		return;
	}
	serving++;
	cr_assert_eq(pthread_create(&t, NULL, echo, l), 0);
	pthread_detach(t);
}

/* As weft-vsock, and any proxy: bytes go both ways, descriptors do not. */
static void *carry(void *arg)
{
	int *s = arg, other;

	for (;;) {
		struct pollfd p[2] = {{.fd = s[0], .events = POLLIN},
				      {.fd = s[1], .events = POLLIN}};
		char bytes[4096];

		cr_assert_gt(poll(p, 2, -1), 0);
		other = p[0].revents ? 0 : 1;
		ssize_t n = read(s[other], bytes, sizeof(bytes));

		if (n <= 0 || write(s[!other], bytes, (size_t)n) != n)
			break;
	}
	close(s[0]);
	close(s[1]);
	free(s);
	return NULL;
}

/* The host's end of a connection that a relay carries on. */
static int relayed(int sock)
{
	int pair[2], *s = malloc(sizeof(pair));
	pthread_t t;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	s[0] = sock;
	s[1] = pair[0];
	cr_assert_eq(pthread_create(&t, NULL, carry, s), 0);
	pthread_detach(t);
	return pair[1];
}

static void *accept_loop(void *arg)
{
	struct host *h = arg;

	for (;;) {
		int sock = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC);

		if (sock < 0)
			return NULL;
		if (h->relay)
			sock = relayed(sock);
		fd_set_nonblock(sock, 1);
		answer(h, sock);
	}
}

static void host_start(struct host *h, uint64_t window_size)
{
	static unsigned n;
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	snprintf(h->path, sizeof(h->path), "/tmp/weft-test-%d-%u", getpid(), n++);
	snprintf(h->address, sizeof(h->address), "unix:%s", h->path);
	strcpy(a.sun_path, h->path);
	h->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(h->listener, (struct sockaddr *)&a, sizeof(a)), 0);
	cr_assert_eq(listen(h->listener, 16), 0);
	h->window.size = window_size;
	h->window.pass_fd = true;
	h->window.fd = window_size ? fd_memfd("test", window_size) : -1;
	cr_assert_eq(host_window_map(&h->window), 0);
	cr_assert_eq(pthread_create(&h->thread, NULL, accept_loop, h), 0);
}

static void host_stop(struct host *h)
{
	shutdown(h->listener, SHUT_RDWR);
	pthread_join(h->thread, NULL);
	close(h->listener);
	unlink(h->path);
	if (h->window.fd >= 0)
		close(h->window.fd);
	while (serving)
		usleep(100);
	host_window_fini(&h->window);
}

static int call(struct lane *l, uint64_t value)
{
	struct lane_reply rep;
	uint64_t *b = lane_begin(l, 1, 8, 0, NULL);
	int r;

	if (!b)
		return -EPIPE;
	*b = value;
	r = lane_call(l, &rep);
	if (r == 0)
		cr_assert_eq(((const uint64_t *)rep.body)[1], value);
	return r;
}

/* ---- connecting ---- */

/* Whether the band of addresses is (not) taken. */
static bool band_taken(bool taken)
{
#ifndef __SANITIZE_THREAD__ /* which lets nobody map there */
	void *at = mmap((void *)BAND, 4096, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (at != MAP_FAILED)
		munmap(at, 4096);
	return taken == (at == MAP_FAILED);
#endif
	return true;
}

static void connects(uint64_t window_size, const char *name)
{
	struct host h = {0};
	struct link_opts o = {.address = h.address};
	struct link *k;
	struct lane *l;

	host_start(&h, window_size);
	cr_assert_eq(link_connect(&o, &k, NULL), 0);
	cr_assert_str_eq(link_carrier_name(k), name);
	cr_assert_eq(link_welcome(k)->session, 77);
	cr_assert_eq(link_welcome(k)->band_base, BAND);
	cr_assert_eq(link_lane(k, &l), 0);
	cr_assert_eq(h.lanes, 1, "lane 0 is given out first");
	for (uint64_t i = 0; i < 100; i++)
		cr_assert_eq(call(l, i), 0);
	/* The band is reserved: nothing else can be put there. */
	cr_assert(band_taken(true));
	cr_assert_eq(link_status(k)->sticky, 0);
	if (strstr(name, "window")) {
		host_status(&h.window)->sticky = 700;
		cr_assert_eq(link_status(k)->sticky, 700);
	}
	lane_free(l);
	link_free(k);
	cr_assert(band_taken(false));
	host_stop(&h);
}

Test(link, a_link_with_a_window_connects)
{
	connects(32 << 20, "unix+window");
}

Test(link, no_window)
{
	connects(0, "unix");
}

Test(link, window_too_small_for_a_lane)
{
	connects(RING_LANE_MIN, "unix");
}

/* Connects where a window is of no use, and says so. */
static void goes_on_as_a_stream(struct host *h, const char *why)
{
	struct link_opts o = {.address = h->address};
	struct lane *a, *b;
	struct link *k;

	cr_assert_eq(link_connect(&o, &k, NULL), 0);
	cr_assert_str_eq(link_carrier_name(k), "unix");
	cr_assert(link_slow(k) && strstr(link_slow(k), why), "%s", link_slow(k));
	cr_assert_eq(link_lane(k, &a), 0);
	cr_assert_eq(link_lane(k, &b), 0);
	for (uint64_t i = 0; i < 100; i++) {
		cr_assert_eq(call(a, i), 0);
		cr_assert_eq(call(b, i), 0);
	}
	lane_free(a);
	lane_free(b);
	link_free(k);
}

Test(link, a_descriptor_that_does_not_come, .timeout = 60)
{
	struct host h = {.relay = true};

	host_start(&h, 32 << 20);
	goes_on_as_a_stream(&h, "not the memory that the host has");
	host_stop(&h);
}

/* The key, or the descriptor, is right, and still the two look at different memory. */
Test(link, memory_that_is_another, .timeout = 60)
{
	struct host h = {0};

	host_start(&h, 32 << 20);
	close(h.window.fd);
	h.window.fd = fd_memfd("another", 32 << 20);
	goes_on_as_a_stream(&h, "not the memory that the host has");
	host_stop(&h);
}

Test(link, a_window_that_shrank_on_its_way, .timeout = 60)
{
	struct host h = {0};

	host_start(&h, 32 << 20);
	close(h.window.fd);
	h.window.fd = fd_memfd("short", 16 << 20);
	goes_on_as_a_stream(&h, "not the memory that the host has");
	host_stop(&h);
}

Test(link, says_why_it_is_slow)
{
	struct host h = {0};
	struct link_opts o = {.address = h.address};
	struct lane *l[5];
	struct link *k;

	host_start(&h, 0);
	goes_on_as_a_stream(&h, "the host could not make one");
	host_stop(&h);
	host_start(&h, 12 << 20); /* four slots */
	cr_assert_eq(link_connect(&o, &k, NULL), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(l); i++) {
		cr_assert_null(link_slow(k), "lane %u", i);
		cr_assert_eq(link_lane(k, &l[i]), 0);
	}
	cr_assert(strstr(link_slow(k), "other threads"), "%s", link_slow(k));
	for (unsigned i = 0; i < ARRAY_SIZE(l); i++)
		lane_free(l[i]);
	link_free(k);
	host_stop(&h);
	host_start(&h, 0); /* a stream is what is wanted */
	o.carriers = 1u << WIRE_CARRIER_STREAM;
	cr_assert_eq(link_connect(&o, &k, NULL), 0);
	cr_assert_null(link_slow(k));
	link_free(k);
	host_stop(&h);
}

static void with_env(const char *carrier, int expect, const char *name, uint64_t window)
{
	struct host h = {0};
	struct link_opts o = {.address = h.address};
	struct link *k;
	int r;

	host_start(&h, window);
	setenv("WEFT_CARRIER", carrier, 1);
	r = link_connect(&o, &k, NULL);
	cr_assert_eq(r, expect, "%s: %d", carrier, r);
	if (r == 0) {
		cr_assert_str_eq(link_carrier_name(k), name);
		link_free(k);
	}
	host_stop(&h);
}

Test(link, carrier_from_the_environment)
{
	with_env("stream", 0, "unix", 32 << 20);
	with_env("window", 0, "unix+window", 32 << 20);
	with_env("window", -ENOSPC, "", 0);
}

Test(link, host_from_the_environment)
{
	struct link_opts o = {0};
	struct host h = {0};
	struct link *k;

	host_start(&h, 0);
	setenv("WEFT_HOST", h.address, 1);
	cr_assert_eq(link_connect(&o, &k, NULL), 0);
	link_free(k);
	host_stop(&h);
}

Test(link, more_lanes_than_slots)
{
	struct host h = {0};
	struct link_opts o = {.address = h.address};
	struct lane *l[9];
	struct link *k;
	unsigned windows = 0;

	host_start(&h, 12 << 20); /* four slots */
	cr_assert_eq(link_connect(&o, &k, NULL), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(l); i++) {
		cr_assert_eq(link_lane(k, &l[i]), 0);
		windows += strcmp(l[i]->carrier_name, "unix+window") == 0;
	}
	cr_assert_eq(windows, 4);
	cr_assert_str_eq(l[8]->carrier_name, "unix");
	for (unsigned i = 0; i < 10 * ARRAY_SIZE(l); i++)
		cr_assert_eq(call(l[i % ARRAY_SIZE(l)], i), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(l); i++)
		lane_free(l[i]);
	link_free(k);
	host_stop(&h);
}

Test(link, slots_are_used_again, .timeout = 60)
{
	struct host h = {0};
	struct link_opts o = {.address = h.address};
	struct lane *l;
	struct link *k;

	host_start(&h, 12 << 20);
	cr_assert_eq(link_connect(&o, &k, NULL), 0);
	for (unsigned i = 0; i < 100; i++) {
		cr_assert_eq(link_lane(k, &l), 0);
		cr_assert_eq(call(l, i), 0);
		lane_free(l);
		/* The worker's thread needs a moment to notice. */
		while (atomic_load(&h.window.slots[0]))
			usleep(100);
	}
	link_free(k);
	host_stop(&h);
}

Test(link, as_many_threads_as_a_session_may_have, .timeout = 60)
{
	static struct lane *l[WIRE_SESSIONS_MAX + 1];
	struct host h = {0};
	struct link_opts o = {.address = h.address};
	struct link *k;

	host_start(&h, 12 << 20);
	cr_assert_eq(link_connect(&o, &k, NULL), 0);
	for (unsigned i = 0; i < WIRE_SESSIONS_MAX; i++)
		cr_assert_eq(link_lane(k, &l[i]), 0);
	cr_assert_eq(link_lane(k, &l[WIRE_SESSIONS_MAX]), -ENOSPC);
	lane_free(l[100]);
	h.lanes -= 2; /* that one, and the one too many */
	cr_assert_eq(link_lane(k, &l[100]), 0);
	cr_assert_eq(call(l[100], 5), 0);
	for (unsigned i = 0; i < WIRE_SESSIONS_MAX; i++)
		lane_free(l[i]);
	link_free(k);
	host_stop(&h);
}

/* ---- not connecting ---- */

Test(link, nobody_there_names_what_was_tried)
{
	struct link_opts o = {0};
	struct link *k;
	char *why = NULL;
	int r;

	unsetenv("WEFT_HOST");
	r = link_connect(&o, &k, &why);
	if (r == 0)
		return; /* a host runs on this machine */
	cr_assert_eq(r, -ECONNREFUSED);
	cr_assert(strstr(why, "/run/weft/weft.sock"), "%s", why);
	cr_assert(strstr(why, "vsock:2:22887"), "%s", why);
	free(why);
}

Test(link, bad_address)
{
	struct link_opts o = {.address = "tcp:somewhere"};
	struct link *k;
	char *why = NULL;

	cr_assert_eq(link_connect(&o, &k, &why), -EINVAL);
	cr_assert(strstr(why, "tcp:somewhere"));
	free(why);
}

Test(link, refusal_is_passed_on)
{
	struct host h = {.error = -EDQUOT};
	struct link_opts o = {.address = h.address};
	struct link *k;
	char *why = NULL;

	host_start(&h, 0);
	cr_assert_eq(link_connect(&o, &k, &why), -EDQUOT);
	cr_assert(strstr(why, h.path));
	cr_assert(strstr(why, strerror(EDQUOT)));
	free(why);
	host_stop(&h);
}

/* A worker that was to answer has died: the next one answers. */
Test(link, asks_again)
{
	struct host h = {0};
	struct link_opts o = {.address = h.address};
	struct lane *a, *b;
	struct link *k;

	host_start(&h, 32 << 20);
	h.drop = 2;
	cr_assert_eq(link_connect(&o, &k, NULL), 0);
	h.drop = 1;
	cr_assert_eq(link_lane(k, &a), 0);
	cr_assert_eq(link_lane(k, &b), 0);
	cr_assert_eq(call(a, 1), 0);
	cr_assert_eq(call(b, 2), 0);
	cr_assert_eq(h.drop, 0);
	lane_free(a);
	lane_free(b);
	link_free(k);
	host_stop(&h);
}

Test(link, does_not_ask_for_ever)
{
	struct host h = {.drop = UINT_MAX};
	struct link_opts o = {.address = h.address};
	struct link *k;
	char *why = NULL;

	host_start(&h, 0);
	cr_assert_eq(link_connect(&o, &k, &why), -ECONNREFUSED);
	cr_assert(strstr(why, strerror(ECONNRESET)), "%s", why);
	free(why);
	host_stop(&h);
}

Test(link, forged_welcomes)
{
	const struct wire_welcome good = {.magic = WIRE_MAGIC,
					  .version = WIRE_VERSION,
					  .token = {1},
					  .carrier = WIRE_CARRIER_WINDOW,
					  .window = WIRE_WINDOW_DESCRIPTOR,
					  .window_size = 16 << 20,
					  .lane_offset = 4096,
					  .lane_size = RING_LANE_MIN};
	struct wire_welcome bad[14];
	struct host h = {0};
	struct link_opts o = {.address = h.address};
	struct link *k;

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = good;
	/* bad[0] lacks the descriptor only, also when none is offered any more */
	bad[1].magic++;
	bad[2].window = 7;
	bad[3].carrier = 7;
	bad[4].lane_offset = (16 << 20) - 4096;
	bad[5].lane_size = UINT64_MAX - 4095;
	bad[6].lane_offset = 100;
	bad[7].status_offset = 16 << 20;
	bad[8].error = 5;
	bad[9].band_base = UINT64_MAX - 4095;
	bad[9].band_size = 1 << 20;
	bad[10].window = WIRE_WINDOW_KEY; /* which was not offered */
	bad[11].window = WIRE_WINDOW_NONE;
	bad[12].window = WIRE_WINDOW_NONE;
	bad[12].window_size = 0; /* rings in no window */
	bad[13].carrier = WIRE_CARRIER_STREAM;
	bad[13].status_offset = 32;
	host_start(&h, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		h.forged = &bad[i];
		cr_assert_eq(link_connect(&o, &k, NULL), -EPROTO, "welcome %u", i);
	}
	host_stop(&h);
}

/* Both versions, and who is to be upgraded; whether it refuses or not. */
Test(link, hosts_of_other_versions)
{
	char *why, want[100];
	struct link *k;

	for (unsigned i = 0; i < 4; i++) {
		struct wire_welcome w = {
			.magic = WIRE_MAGIC,
			.token = {1},
			.version = i & 1 ? WIRE_VERSION + 1 : WIRE_VERSION - 1,
			.error = i & 2 ? -EPROTONOSUPPORT : 0,
		};
		struct host h = {.forged = &w};
		struct link_opts o = {.address = h.address};

		host_start(&h, 0);
		cr_assert_eq(link_connect(&o, &k, &why), -EPROTONOSUPPORT);
		snprintf(want, sizeof(want),
			 "the host speaks version %u of the protocol, this library %u: "
			 "upgrade %s",
			 w.version, WIRE_VERSION, i & 1 ? "libcuda.so.1" : "Weft");
		cr_assert(strstr(why, want), "%s", why);
		free(why);
		host_stop(&h);
	}
}

/* ---- fork ---- */

Test(link, a_forked_child_lets_go_without_a_word)
{
	struct host h = {0};
	struct link_opts o = {.address = h.address};
	struct lane *a, *b;
	struct link *k;
	int status, fd;
	pid_t pid;

	host_start(&h, 32 << 20);
	cr_assert_eq(link_connect(&o, &k, NULL), 0);
	cr_assert_eq(link_lane(k, &a), 0);
	cr_assert_eq(link_lane(k, &b), 0);
	fd = b->sock;
	pid = fork();
	if (pid == 0) {
		link_abandon(k);
		_exit(fcntl(fd, F_GETFD) == -1 ? 0 : 1);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	cr_assert_eq(call(a, 1), 0);
	cr_assert_eq(call(b, 2), 0);
	lane_free(a);
	lane_free(b);
	link_free(k);
	host_stop(&h);
}

/* ---- the host's end of the handshake ---- */

static struct wire_hello good_hello(void)
{
	return (struct wire_hello){.magic = WIRE_MAGIC,
				   .version = WIRE_VERSION,
				   .offers = WIRE_OFFER_STREAM | WIRE_OFFER_DESCRIPTOR,
				   .name = "test"};
}

/* Returns what host_hello() says to these bytes; leave: the guest leaves after them. */
static int say(const void *bytes, size_t n, bool leave, struct wire_welcome *ret_answer)
{
	struct wire_hello h;
	int s[2], r;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	cr_assert_eq(write(s[0], bytes, n), (ssize_t)n);
	if (leave)
		shutdown(s[0], SHUT_WR);
	r = host_hello(s[1], 30, &h);
	if (ret_answer)
		cr_assert_eq(recv(s[0], ret_answer, sizeof(*ret_answer), MSG_DONTWAIT),
			     (ssize_t)sizeof(*ret_answer));
	close(s[0]);
	close(s[1]);
	return r;
}

Test(host, hello_cut_short)
{
	struct wire_hello h = good_hello();

	for (size_t n = 0; n < sizeof(h); n++) {
		cr_assert_eq(say(&h, n, true, NULL), -ENODATA);
		if (n % 16 == 0)
			cr_assert_eq(say(&h, n, false, NULL), -ETIMEDOUT);
	}
	cr_assert_eq(say(&h, sizeof(h), true, NULL), 0);
}

Test(host, hello_nonsense)
{
	struct wire_hello h[10];
	char noise[4096];

	memset(noise, 0xa5, sizeof(noise));
	cr_assert_eq(say(noise, sizeof(noise), false, NULL), -EPROTO);
	memset(noise, 0, sizeof(noise));
	cr_assert_eq(say(noise, sizeof(noise), false, NULL), -EPROTO);
	for (unsigned i = 0; i < ARRAY_SIZE(h); i++)
		h[i] = good_hello();
	h[0].magic ^= 1;
	h[1].offers = 0;
	h[2].offers = ~HELLO_OFFERS;
	h[3].lane = 1;      /* without a token */
	h[4].token[15] = 1; /* lane 0 with one */
	memset(h[5].name, 'x', sizeof(h[5].name));
	h[6].name[23] = 'x'; /* after the end */
	h[7].offers = WIRE_HELLO_MONITOR;
	h[8].offers |= WIRE_OFFER_KEY; /* without one */
	h[9].window_key = 5;           /* that is not offered */
	for (unsigned i = 0; i < ARRAY_SIZE(h); i++)
		cr_assert_eq(say(&h[i], sizeof(h[i]), false, NULL), -EPROTO, "%u", i);
}

Test(host, hello_of_other_versions)
{
	struct wire_hello h = good_hello();
	struct wire_welcome w;

	for (h.version = 0; h.version < WIRE_VERSION; h.version++) {
		cr_assert_eq(say(&h, sizeof(h), false, &w), -EPROTONOSUPPORT);
		cr_assert_eq(w.magic, WIRE_MAGIC);
		cr_assert_eq(w.version, WIRE_VERSION);
		cr_assert_eq(w.error, -EPROTONOSUPPORT);
		/* The version before looked at this. */
		cr_assert(!w.window && !w.why && !w.proof);
	}
	h.version = UINT16_MAX; /* speaks ours as well */
	cr_assert_eq(say(&h, sizeof(h), false, NULL), 0);
}

Test(host, names_become_printable)
{
	struct wire_hello h = good_hello();

	memcpy(h.name, "a\x1b[2Jb\xff", 8);
	cr_assert_eq(hello_check(&h), 0);
	cr_assert_str_eq(h.name, "a?[2Jb?");
}

Test(host, descriptors_to_pass_must_be_sealed)
{
	struct host_window w = {.pass_fd = true, .size = 16 << 20};

	w.fd = memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	cr_assert_eq(ftruncate(w.fd, 16 << 20), 0);
	cr_assert_eq(host_window_map(&w), -EPERM);
	cr_assert_null(w.map);
	host_window_fini(&w);
	close(w.fd);
}

/* The welcome of a guest that comes over a vsock, or not, and shows a key, or none. */
static struct wire_welcome welcome_for(struct host_window *w, uint32_t offers,
				       uint32_t key, const char *name)
{
	struct wire_welcome base = {.token = {1}, .session = 5}, welcome;
	struct wire_hello hello = good_hello();
	struct host_lane_opts o = {.hello = &hello, .base = &base, .window = w};
	struct lane *l;
	int s[2];

	hello.offers = offers;
	hello.window_key = key;
	cr_assert_eq(hello_check(&hello), 0);
	/* Lanes of the host are Unix sockets in any case. */
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	cr_assert_eq(host_lane_new(s[1], &o, &l), 0);
	cr_assert_eq(read(s[0], &welcome, sizeof(welcome)), (ssize_t)sizeof(welcome));
	cr_assert_eq(welcome_check(&welcome, offers), 0);
	cr_assert_str_eq(host_lane_carrier(l), name);
	if (welcome.carrier == WIRE_CARRIER_WINDOW) {
		cr_assert_eq(welcome.lane_offset, w->offset + 4096);
		cr_assert_eq(welcome.window_size, w->offset + w->size);
		cr_assert_eq(welcome.why, 0);
	}
	lane_free(l);
	close(s[0]);
	return welcome;
}

#define FROM_VM (WIRE_OFFER_STREAM | WIRE_HELLO_VSOCK)
#define LOCAL   (WIRE_OFFER_STREAM | WIRE_OFFER_DESCRIPTOR)

Test(host, the_window_of_a_vm_goes_to_who_has_mapped_it)
{
	struct host_window w = {.key = 0xabc, .offset = 8192, .size = 8 << 20};
	char old[64] = "what another process left";
	struct wire_welcome v;

	w.fd = fd_memfd("vm", 16 << 20);
	cr_assert_eq(pwrite(w.fd, old, sizeof(old), 8192 + 100000), (ssize_t)sizeof(old));
	cr_assert_eq(host_window_map(&w), 0);
	cr_assert_eq(pread(w.fd, old, sizeof(old), 8192 + 100000), (ssize_t)sizeof(old));
	cr_assert_eq(old[0], 0, "the slice is cleared");
	v = welcome_for(&w, FROM_VM | WIRE_OFFER_KEY, 0xabc, "vsock+window");
	cr_assert_eq(v.window, WIRE_WINDOW_KEY);
	v = welcome_for(&w, FROM_VM | WIRE_OFFER_KEY, 0xabd, "vsock");
	cr_assert_eq(v.window, WIRE_WINDOW_NONE);
	v = welcome_for(&w, FROM_VM, 0, "vsock");
	cr_assert_eq(v.window, WIRE_WINDOW_NONE);
	cr_assert_eq(v.why, WIRE_WHY_NOT_OFFERED);
	v = welcome_for(&w, LOCAL, 0, "unix");
	cr_assert_eq(v.window, WIRE_WINDOW_NONE, "a local program has not mapped it");
	host_window_fini(&w);
	close(w.fd);
}

/* Lanes that have a slot each in a slice of that size; slots do not overlap. */
static unsigned slots_in(uint64_t size)
{
	struct wire_welcome base = {.session = 5}, welcome;
	struct host_window w = {.pass_fd = true, .size = size};
	struct wire_hello hello = good_hello();
	struct host_lane_opts o = {.hello = &hello, .base = &base, .window = &w};
	uint64_t end = 4096;
	unsigned n = 0;
	struct lane *lanes[WIRE_SESSIONS_MAX];
	int s[WIRE_SESSIONS_MAX];

	hello.offers = LOCAL;
	w.fd = fd_memfd("slots", size);
	cr_assert_eq(host_window_map(&w), 0);
	for (bool slot = true; slot && n < WIRE_SESSIONS_MAX; n += slot) {
		int pair[2];

		cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
		cr_assert_eq(host_lane_new(pair[1], &o, &lanes[n]), 0);
		cr_assert_eq(read(pair[0], &welcome, sizeof(welcome)),
			     (ssize_t)sizeof(welcome));
		s[n] = pair[0];
		slot = welcome.carrier == WIRE_CARRIER_WINDOW;
		if (!slot)
			lane_free(lanes[n]);
		if (!slot)
			close(s[n]);
		cr_expect(!slot || welcome.lane_offset == end);
		end = welcome.lane_offset + welcome.lane_size;
		cr_expect(!slot || end <= size);
	}
	for (unsigned i = 0; i < n; i++) {
		lane_free(lanes[i]);
		close(s[i]);
	}
	host_window_fini(&w);
	close(w.fd);
	return n;
}

Test(host, slots_are_for_many_threads)
{
	cr_expect_eq(slots_in(4 << 20), 1);
	cr_expect_eq(slots_in(12 << 20), 4);
	cr_expect_eq(slots_in(64 << 20), 15, "a VM's");
	cr_expect_eq(slots_in(512 << 20), 168, "where there is no VM");
}

/* Where descriptors do not get through, none is counted on. */
Test(host, a_descriptor_goes_to_who_asks_for_one)
{
	struct host_window w = {.pass_fd = true, .size = 16 << 20};
	struct wire_welcome v;

	w.fd = fd_memfd("session", 16 << 20);
	cr_assert_eq(host_window_map(&w), 0);
	v = welcome_for(&w, LOCAL, 0, "unix+window");
	cr_assert_eq(v.window, WIRE_WINDOW_DESCRIPTOR);
	v = welcome_for(&w, FROM_VM, 0, "vsock");
	cr_assert_eq(v.window, WIRE_WINDOW_NONE);
	v = welcome_for(&w, FROM_VM | WIRE_OFFER_KEY, 0xabc, "vsock");
	cr_assert_eq(v.window, WIRE_WINDOW_NONE);
	cr_assert_eq(v.why, WIRE_WHY_NONE);
	host_window_fini(&w);
	close(w.fd);
}

/* No slice is left: no rings and no status line, but host memory can be shared. */
Test(host, a_full_window_of_a_vm)
{
	struct host_window w = {.key = 0xabc, .offset = 4096, .why = WIRE_WHY_FULL};
	struct wire_welcome v;

	w.fd = fd_memfd("vm", 16 << 20);
	cr_assert_eq(host_window_map(&w), 0);
	v = welcome_for(&w, FROM_VM | WIRE_OFFER_KEY, 0xabc, "vsock");
	cr_assert_eq(v.window, WIRE_WINDOW_KEY);
	cr_assert_eq(v.why, WIRE_WHY_FULL);
	cr_assert_eq(v.status_offset, 0);
	cr_assert_eq(v.window_size, 4096);
	cr_assert_null(host_status(&w));
	v = welcome_for(&w, FROM_VM | WIRE_OFFER_KEY, 0xabd, "vsock");
	cr_assert_eq(v.window, WIRE_WINDOW_NONE);
	close(w.fd);
}
