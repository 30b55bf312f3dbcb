/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a guest process reaches its worker: places to look, the handshake of each lane, the
 * window. The window is mapped once, with lane 0, and stays until the link ends.
 *
 * A window that is granted and then cannot be used (no descriptor came, it is too short,
 * the worker's proof is not in it) is given up: the lane is opened again without it.
 *
 * Descriptors are kept in a table beside the lanes, so that a forked child can close them
 * without a lock that a thread which it does not have may hold.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

#include "address.h"
#include "bar.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "carrier.h"
#include "hello.h"
#include "link.h"

/* A worker may have to be started, with a context on a busy GPU, before it answers. */
#define WELCOME_TIMEOUT_NS (60 * NSEC_PER_SEC)

/* Tries to shake hands: a worker that was to answer may die before it does, and then
 * there is another one. */
#define SHAKE_TRIES   4

#define LOCAL_ADDRESS "unix:/run/weft/weft.sock"

struct link {
	struct link_opts opts;
	struct address address;
	bool may_stream, may_window; /* as the caller and the environment say */
	/* Hello of lane 0; those of further lanes differ in lane, tid and token, and
	 * offer the carriers that lane 0 got. */
	struct wire_hello hello;
	char why_slow[BAR_WHY_MAX];
	_Atomic(const char *) slow; /* NULL: nothing is */
	struct wire_welcome welcome;
	struct lane_tickets tickets;
	struct lane_known known; /* by the worker */
	uint16_t *known_size;
	struct bar bar;
	void *map; /* the session's memfd, if that is the window */
	int file;  /* of the window: memfd or BAR; -1: none */
	struct wire_status no_status;
	void *band;

	pthread_mutex_t lock; /* first, next_lane */
	struct lane *first;   /* lane 0 until it is given out */
	uint16_t next_lane;
	atomic_int socks[WIRE_SESSIONS_MAX]; /* descriptor + 1; 0: free */
};

/* Appends to the sentence that says what was tried. */
static void _printf_(2, 3) note(char **why, const char *fmt, ...)
{
	char *add, *all;
	va_list ap;
	int n;

	if (!why)
		return;
	va_start(ap, fmt);
	n = vasprintf(&add, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if (asprintf(&all, "%s%s", *why ? *why : "", add) >= 0) {
		free(*why);
		*why = all;
	}
	free(add);
}

static int sock_register(struct link *k, int fd, unsigned *ret_slot)
{
	for (unsigned i = 0; i < WIRE_SESSIONS_MAX; i++) {
		int none = 0;

		if (atomic_compare_exchange_strong(&k->socks[i], &none, fd + 1)) {
			*ret_slot = i;
			return 0;
		}
	}
	return -ENOSPC;
}

static void sock_forget(void *owner, unsigned slot)
{
	struct link *k = owner;

	atomic_store(&k->socks[slot], 0);
}

/* Receives the welcome and the window's descriptor, if one comes with it. */
static int receive_welcome(int sock, struct wire_welcome *w, int *ret_fd)
{
	uint64_t deadline = clock_now_ns() + WELCOME_TIMEOUT_NS;
	_cleanup_close_ int fd = -1;
	size_t have = 0;

	while (have < sizeof(*w)) {
		struct pollfd p = {.fd = sock, .events = POLLIN};
		uint64_t now = clock_now_ns();
		int got = -1;
		ssize_t n;

		if (now >= deadline)
			return -ETIMEDOUT;
		n = poll(&p, 1, (int)((deadline - now) / NSEC_PER_MSEC) + 1);
		if (n <= 0)
			continue;
		n = fd_recv(sock, (char *)w + have, sizeof(*w) - have, &got, 1);
		if (n <= 0)
			return n < 0 ? (int)n : -ECONNRESET;
		if (got >= 0 && fd >= 0)
			close(got);
		else if (got >= 0)
			fd = got;
		have += (size_t)n;
	}
	*ret_fd = fd_steal(&fd);
	return 0;
}

/* On success the caller owns *ret_fd (or -1). -EAGAIN: the other end has gone. */
static int shake_once(int sock, const struct wire_hello *hello,
		      struct wire_welcome *ret_welcome, int *ret_fd)
{
	int r = fd_write_full(sock, hello, sizeof(*hello));

	if (r == 0)
		r = receive_welcome(sock, ret_welcome, ret_fd);
	return r == -ECONNRESET || r == -EPIPE ? -EAGAIN : r;
}

/* Connects and shakes hands. On success the caller owns *ret_sock and *ret_fd (or -1).
 * -EPROTONOSUPPORT: the welcome has the host's version. */
static int shake(const struct address *a, const struct wire_hello *hello,
		 struct wire_welcome *ret_welcome, int *ret_sock, int *ret_fd)
{
	_cleanup_close_ int sock = -1, fd = -1;
	struct wire_welcome w;
	int r = -EAGAIN;

	for (unsigned i = 0; i < SHAKE_TRIES && r == -EAGAIN; i++) {
		closep(&sock);
		sock = address_connect(a);
		if (sock < 0)
			return sock;
		r = shake_once(sock, hello, &w, &fd);
	}
	if (r == -EAGAIN)
		r = -ECONNRESET;
	if (r < 0)
		return r;
	r = welcome_check(&w, hello->offers);
	if (r >= 0 || r == -EPROTONOSUPPORT)
		*ret_welcome = w;
	if (r < 0)
		return r;
	*ret_sock = fd_steal(&sock);
	*ret_fd = fd_steal(&fd);
	return 0;
}

/* Maps what came with lane 0's welcome, or checks that the VM's window is large enough.
 * -ENXIO: it cannot be used. */
static int map_window(struct link *k, int fd)
{
	const struct wire_welcome *w = &k->welcome;
	struct stat st;

	if (w->window == WIRE_WINDOW_NONE)
		return 0;
	if (w->window == WIRE_WINDOW_KEY) {
		if (w->window_size > k->bar.size)
			return -ENXIO;
		k->file = fcntl(k->bar.fd, F_DUPFD_CLOEXEC, 0);
		return 0;
	}
	if (fd < 0 || fstat(fd, &st) < 0 || (uint64_t)st.st_size < w->window_size)
		return -ENXIO;
	k->map = mmap(NULL, w->window_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (k->map == MAP_FAILED) {
		k->map = NULL;
		return -errno;
	}
	k->file = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return 0;
}

static char *window_base(const struct link *k)
{
	return k->map ? k->map : k->bar.map;
}

static const char *name_of(const struct link *k, unsigned carrier)
{
	bool vsock = address_is_vsock(&k->address);

	if (carrier == WIRE_CARRIER_WINDOW)
		return vsock ? "vsock+window" : "unix+window";
	return vsock ? "vsock" : "unix";
}

/* The lane's rings, if the worker's proof is in them. */
static struct ring_lane *find_rings(const struct link *k, const struct wire_welcome *w)
{
	struct ring_lane *ring;

	/* Later lanes lie in the window that is mapped already. */
	if (!window_base(k) || w->window != k->welcome.window ||
	    w->window_size != k->welcome.window_size)
		return NULL;
	ring = (struct ring_lane *)(window_base(k) + w->lane_offset);
	if (ring->proof.session != w->session || ring->proof.proof != w->proof)
		return NULL;
	return ring;
}

/* Makes the lane that a welcome grants. Takes over sock on success. -ENXIO: the window
 * cannot be used. */
static int make_lane(struct link *k, int sock, const struct wire_welcome *w,
		     struct lane **ret_lane)
{
	struct lane_init in = {
		.sock = sock,
		.guest = true,
		.spin_us = LANE_GUEST_SPIN_US,
		.tickets = &k->tickets,
		.known = &k->known,
		.output = k->opts.output,
		.carrier_name = name_of(k, w->carrier),
		.on_free = sock_forget,
		.owner = k,
	};
	int r;

	if (w->carrier == WIRE_CARRIER_WINDOW) {
		in.ring = find_rings(k, w);
		if (!in.ring)
			return -ENXIO;
		in.ring_size = w->lane_size;
		in.weak = !k->map && k->bar.weak;
		if (address_is_vsock(&k->address))
			in.spin_us *= LANE_VSOCK_FACTOR;
	}
	r = sock_register(k, sock, &in.slot);
	if (r < 0)
		return r;
	r = lane_new(&in, ret_lane);
	if (r < 0)
		sock_forget(k, in.slot);
	return r;
}

static void reserve_band(struct link *k)
{
	void *at = (void *)(uintptr_t)k->welcome.band_base;
	void *got;

	if (!k->welcome.band_size)
		return;
#ifdef __SANITIZE_THREAD__
	/* ThreadSanitizer ends a program that maps into its shadows. */
	log_debug("no band under ThreadSanitizer");
	return;
#endif
	got = mmap(at, k->welcome.band_size, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
		   0);
	if (got == at) {
		k->band = at;
		return;
	}
	/* Only pinned and managed memory need it, and they will say so. */
	log_debug("cannot reserve 0x%llx bytes at 0x%llx: %s",
		  (unsigned long long)k->welcome.band_size,
		  (unsigned long long)k->welcome.band_base,
		  got == MAP_FAILED ? strerror(errno) : "taken");
	if (got != MAP_FAILED)
		munmap(got, k->welcome.band_size);
}

static void unmap_window(struct link *k)
{
	if (k->map)
		munmap(k->map, k->welcome.window_size);
	k->map = NULL;
	closep(&k->file);
	k->file = -1;
	bar_fini(&k->bar);
}

static const char *const why_texts[WIRE_NUM_WHYS] = {
	[WIRE_WHY_NONE] =
		"the host has none for this VM: see window.path in weftd.conf(5)",
	[WIRE_WHY_OTHER] = "the one of this VM is not the host's: restart the VM",
	[WIRE_WHY_FULL] = "it is full: other programs of this VM have all of it",
	[WIRE_WHY_THREADS] = "other threads of this program have all of its part",
};

/* Offers what the address allows: a window by descriptor, or the VM's own. */
static void make_offers(struct link *k)
{
	struct wire_hello *h = &k->hello;

	h->offers &= WIRE_HELLO_MONITOR | WIRE_HELLO_GRAPHICS;
	h->window_key = 0;
	k->why_slow[0] = '\0';
	if (k->may_stream)
		h->offers |= WIRE_OFFER_STREAM;
	if (address_is_vsock(&k->address))
		h->offers |= WIRE_HELLO_VSOCK;
	if (!k->may_window)
		return;
	if (!address_is_vsock(&k->address)) {
		h->offers |= WIRE_OFFER_DESCRIPTOR;
	} else if (bar_find(BAR_SYSFS, &k->bar, k->why_slow) == 0) {
		h->window_key = k->bar.key;
		h->offers |= WIRE_OFFER_KEY;
		k->why_slow[0] = '\0';
	}
}

static void offer_no_window(struct link *k)
{
	unmap_window(k);
	k->hello.offers &= ~HELLO_WINDOWS;
	k->hello.window_key = 0;
}

static int open_first(struct link *k)
{
	_cleanup_close_ int sock = -1, fd = -1;
	int r;

	k->welcome = (struct wire_welcome){0};
	r = shake(&k->address, &k->hello, &k->welcome, &sock, &fd);
	if (r == 0)
		r = map_window(k, fd);
	if (r == 0)
		r = make_lane(k, sock, &k->welcome, &k->first);
	if (r == 0)
		(void)fd_steal(&sock);
	return r;
}

/* Keeps the reason for a lane that is a stream although a window was wanted. */
static void explain(struct link *k, const struct wire_welcome *w)
{
	const char *text = "the host could not make one", *none = NULL;

	if (!k->may_window || w->carrier == WIRE_CARRIER_WINDOW)
		return;
	if (w == &k->welcome && k->why_slow[0])
		text = k->why_slow;
	else if (w->why > WIRE_WHY_NONE && w->why < WIRE_NUM_WHYS)
		text = why_texts[w->why];
	else if (address_is_vsock(&k->address))
		text = why_texts[WIRE_WHY_NONE];
	atomic_compare_exchange_strong(&k->slow, &none, text);
}

/* Says which of the two is to be upgraded. */
static void note_version(unsigned host, char **why)
{
	note(why,
	     "the host speaks version %u of the protocol, this library %u: upgrade %s",
	     host, WIRE_VERSION,
	     host < WIRE_VERSION ? "Weft on the host"
				 : "libcuda.so.1 and libnvidia-ml.so.1 here");
}

/* Advice for a program's user. */
static const char *words(const struct address *at, int error)
{
	/* A port of the host that nobody has; a Unix socket that is gone says ENOENT. */
	if (error == -ECONNRESET && address_is_vsock(at))
		return "the host has nothing at this port: does weft-vsock forward it to "
		       "weftd?";
	if ((error == -EPERM || error == -EACCES) && address_is_vsock(at))
		return "a filter of this container refuses vsock sockets: run it with "
		       "--device nvidia.com/gpu=all";
	switch (error) {
	case -ENOENT:
		return "there is no such socket: is weftd running?";
	case -ECONNREFUSED:
		return "nobody listens there: is weftd running?";
	case -ENODEV:
		return "this machine has no vsock device";
	case -EACCES:
		return "permission denied: the socket is another user's or group's";
	case -EOPNOTSUPP:
		return "this tenant has no graphics (graphics in weftd.conf(5))";
	case -ESHUTDOWN:
		return "no program can begin while the host's operator drains this GPU";
	case -EUSERS:
		return "all sessions that this tenant may have at once are running "
		       "(sessions.max)";
	default:
		return strerror(-error);
	}
}

static int try_address(struct link *k, const char *text, char **why)
{
	const char *sep = why && *why ? "; " : "";
	int r;

	r = address_parse(text, &k->address);
	if (r < 0) {
		note(why, "%s%s: neither unix:PATH nor vsock:CID:PORT", sep, text);
		return r;
	}
	note(why, "%s%s: ", sep, text);
	make_offers(k);
	if (!(k->hello.offers & HELLO_OFFERS))
		r = -ENOSPC; /* a window is wanted, and there is none */
	else
		r = open_first(k);
	if (r == -ENXIO && k->may_stream) {
		snprintf(k->why_slow, sizeof(k->why_slow),
			 "what came is not the memory that the host has");
		offer_no_window(k);
		r = open_first(k);
	}
	if (r < 0) {
		offer_no_window(k);
		if (r == -EPROTONOSUPPORT && k->welcome.version)
			note_version(k->welcome.version, why);
		else
			note(why, "%s", words(&k->address, r));
		return r;
	}
	/* Later lanes offer what this one has got. */
	if (k->welcome.window == WIRE_WINDOW_NONE)
		offer_no_window(k);
	explain(k, &k->welcome);
	log_debug("%s: %s, session %llu", text, link_carrier_name(k),
		  (unsigned long long)k->welcome.session);
	return 0;
}

/* Nobody there: the next place may do. Any other answer is somebody's, and final. */
static bool nobody(int r)
{
	switch (r) {
	case -ENOENT:
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -ENODEV:
	case -ENETUNREACH:
	case -EHOSTUNREACH:
	case -EADDRNOTAVAIL:
	case -EAFNOSUPPORT:
	case -EACCES:
	case -EPERM:
	case -ETIMEDOUT:
		return true;
	}
	return false;
}

static int try_everywhere(struct link *k, char **why)
{
	const char *env = getenv("WEFT_HOST");
	char vsock[32];
	const char *const places[] = {LOCAL_ADDRESS, vsock};
	int r = -ECONNREFUSED;

	snprintf(vsock, sizeof(vsock), "vsock:%u:%u", VMADDR_CID_HOST, WIRE_VSOCK_PORT);
	if (k->opts.address)
		return try_address(k, k->opts.address, why);
	if (env && *env)
		return try_address(k, env, why);
	for (unsigned i = 0; i < ARRAY_SIZE(places); i++) {
		r = try_address(k, places[i], why);
		if (!nobody(r))
			return r;
	}
	return r;
}

/* Carriers that the caller and the environment allow. */
static void allow_carriers(struct link *k)
{
	uint32_t c = k->opts.carriers;
	const char *env = getenv("WEFT_CARRIER");

	k->may_stream = !c || c & 1u << WIRE_CARRIER_STREAM;
	k->may_window = !c || c & 1u << WIRE_CARRIER_WINDOW;
	if (env && strcmp(env, "stream") == 0)
		k->may_window = false;
	else if (env && strcmp(env, "window") == 0)
		k->may_stream = false;
}

int link_connect(const struct link_opts *opts, struct link **ret_link, char **ret_why)
{
	struct link *k = calloc(1, sizeof(*k));
	char *why = NULL;
	int r;

	if (!k)
		return -ENOMEM;
	k->opts = *opts;
	atomic_init(&k->tickets.next, 1);
	pthread_mutex_init(&k->lock, NULL);
	k->next_lane = 1;
	k->file = -1;
	k->hello = (struct wire_hello){
		.magic = WIRE_MAGIC,
		.version = WIRE_VERSION,
		.pid = opts->pid ? opts->pid : (uint32_t)getpid(),
		.tid = (uint32_t)syscall(SYS_gettid),
		.offers = (opts->monitor ? WIRE_HELLO_MONITOR : 0) |
			  (opts->graphics ? WIRE_HELLO_GRAPHICS : 0),
	};
	allow_carriers(k);
	snprintf(k->hello.name, sizeof(k->hello.name), "%s",
		 opts->name ? opts->name : program_invocation_short_name);
	r = try_everywhere(k, ret_why ? &why : NULL);
	k->opts.address = k->opts.name = NULL; /* the caller's */
	if (r < 0) {
		link_free(k);
		if (ret_why)
			*ret_why = why;
		else
			free(why);
		return nobody(r) ? -ECONNREFUSED : r;
	}
	free(why);
	if (!opts->monitor &&
	    !opts->graphics) /* one band in a process: CUDA may come later */
		reserve_band(k);
	*ret_link = k;
	return 0;
}

int link_lane(struct link *k, struct lane **ret_lane)
{
	struct wire_hello hello = k->hello;
	struct wire_welcome w;
	_cleanup_close_ int sock = -1, fd = -1;
	struct lane *first;
	int r;

	pthread_mutex_lock(&k->lock);
	first = k->first;
	k->first = NULL;
	hello.lane = k->next_lane;
	if (!first)
		k->next_lane = k->next_lane == UINT16_MAX ? 1 : k->next_lane + 1;
	pthread_mutex_unlock(&k->lock);
	if (first) {
		*ret_lane = first;
		return 0;
	}
	hello.tid = (uint32_t)syscall(SYS_gettid);
	memcpy(hello.token, k->welcome.token, sizeof(hello.token));
	for (;;) {
		r = shake(&k->address, &hello, &w, &sock, &fd);
		if (r == 0)
			r = make_lane(k, sock, &w, ret_lane);
		if (r != -ENXIO || !(hello.offers & HELLO_WINDOWS) || !k->may_stream)
			break;
		closep(&sock);
		closep(&fd);
		hello.offers &= ~HELLO_WINDOWS;
		hello.window_key = 0;
	}
	if (r < 0)
		return r;
	(void)fd_steal(&sock);
	if (k->welcome.carrier == WIRE_CARRIER_WINDOW)
		explain(k, &w);
	return 0;
}

const char *link_slow(const struct link *k)
{
	return atomic_load(&k->slow);
}

const struct wire_welcome *link_welcome(const struct link *k)
{
	return &k->welcome;
}

const struct lane_tickets *link_tickets(const struct link *k)
{
	return &k->tickets;
}

int link_learn(struct link *k, const uint16_t *size, unsigned n)
{
	k->known_size = malloc(MAX(n, 1u) * sizeof(*size));
	if (!k->known_size)
		return -ENOMEM;
	memcpy(k->known_size, size, n * sizeof(*size));
	k->known.size = k->known_size;
	k->known.n = MAX(n, 1u);
	if (!n)
		k->known_size[0] = 0;
	return 0;
}

const volatile struct wire_status *link_status(const struct link *k)
{
	const struct wire_welcome *w = &k->welcome;

	if (w->window == WIRE_WINDOW_NONE ||
	    (w->window == WIRE_WINDOW_KEY && !w->status_offset))
		return &k->no_status;
	return (const volatile void *)(window_base(k) + w->status_offset);
}

const char *link_carrier_name(const struct link *k)
{
	return name_of(k, k->welcome.carrier);
}

int link_map_over(struct link *k, void *at, uint64_t offset, uint64_t size, bool private)
{
	if (k->file < 0)
		return -EOPNOTSUPP;
	if (mmap(at, size, PROT_READ | PROT_WRITE,
		 (private ? MAP_PRIVATE : MAP_SHARED) | MAP_FIXED, k->file,
		 (off_t)offset) == MAP_FAILED)
		return -errno;
	return 0;
}

int link_map(struct link *k, uint64_t addr, uint64_t offset, uint64_t size)
{
	const struct wire_welcome *w = &k->welcome;
	uint64_t at = addr - w->band_base;

	if (!k->band)
		return -EOPNOTSUPP;
	if (at >= w->band_size || size > w->band_size - at || addr % 4096 ||
	    offset % 4096)
		return -EINVAL;
	return link_map_over(k, (void *)(uintptr_t)addr, offset, size, false);
}

bool link_has_band(const struct link *k)
{
	return k->band;
}

void link_unmap(struct link *k, uint64_t addr, uint64_t size)
{
	if (mmap((void *)(uintptr_t)addr, size, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
		 0) == MAP_FAILED)
		log_debug("band: cannot unmap: %s", strerror(errno));
}

void link_abandon(struct link *k)
{
	for (unsigned i = 0; i < WIRE_SESSIONS_MAX; i++) {
		int fd = atomic_exchange(&k->socks[i], 0) - 1;

		if (fd >= 0)
			close(fd);
	}
	/* The band stays: the child may have inherited memory that was mapped into it. */
	unmap_window(k);
}

void link_free(struct link *k)
{
	if (!k)
		return;
	lane_free(k->first);
	unmap_window(k);
	if (k->band)
		munmap(k->band, k->welcome.band_size);
	pthread_mutex_destroy(&k->lock);
	free(k->known_size);
	free(k);
}
