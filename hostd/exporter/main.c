/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weft-exporter: serves what weftd counts to Prometheus. A process of its own, so that
 * weftd speaks to no network, and with less rights than anybody who may ask weftd: it opens
 * no file, connects to Unix sockets, and accepts at one address.
 *
 * One thread: libmicrohttpd's connections are looked at by an epoll of theirs, and a page
 * that several ask for within CACHE_NS is made once.
 *
 * #syscalls: socket connect accept4 setsockopt getsockopt getsockname shutdown
 * #syscalls: epoll_wait epoll_ctl recvfrom sendto sendmsg write poll close clock_gettime
 */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <microhttpd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "exporter/page.h"
#include "exporter/source.h"
#include "exporter/text.h"
#include "util/notify.h"
#include "util/sandbox.h"

#define EXIT_USAGE      64 /* of sysexits.h */
#define CONTROL_DEFAULT "/run/weft/control"
/* Beside the port that guests come to by vsock, and outside Prometheus' own range. */
#define LISTEN_DEFAULT   "127.0.0.1:22888"
#define SESSIONS_DEFAULT 256u
#define SESSIONS_MAX     65536u
/* Several Prometheuses of one site ask at the same second. */
#define CACHE_NS (300 * NSEC_PER_MSEC)
/* A request is a line and some headers, a client one of a few. */
#define CONNECTIONS_MAX  64u
#define CONNECTION_BYTES (32u << 10)
#define CONNECTION_S     15u
#define FILES_MAX        (CONNECTIONS_MAX + 32)

struct exporter {
	struct source source;
	bool dcgm;
	struct text page; /* made at made_ns; 0: never */
	uint64_t made_ns;
};

static const char start_page[] =
	"<!DOCTYPE html><html lang=\"en\"><head><title>Weft exporter</title></head>"
	"<body><h1>Weft exporter</h1><p><a href=\"/metrics\">Metrics</a></p>"
	"</body></html>\n";

/* ---- requests ---- */

static void refresh(struct exporter *e)
{
	uint64_t now = clock_now_ns();
	struct answers a;

	if (e->made_ns && now - e->made_ns < CACHE_NS)
		return;
	text_fini(&e->page);
	(void)source_ask(&e->source, &a);
	page_write(&e->page, &a, e->dcgm);
	answers_fini(&a);
	e->made_ns = clock_now_ns();
}

static enum MHD_Result reply(struct MHD_Connection *c, unsigned status, const char *type,
			     const void *body, size_t n)
{
	struct MHD_Response *r =
		MHD_create_response_from_buffer(n, (void *)body, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result queued = MHD_NO;

	if (!r)
		return MHD_NO;
	if (MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES &&
	    (status != MHD_HTTP_METHOD_NOT_ALLOWED ||
	     MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD") == MHD_YES))
		queued = MHD_queue_response(c, status, r);
	MHD_destroy_response(r);
	return queued;
}

static enum MHD_Result reply_words(struct MHD_Connection *c, unsigned status,
				   const char *words)
{
	return reply(c, status, "text/plain; charset=utf-8", words, strlen(words));
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url,
				  const char *method, const char *version,
				  const char *body, size_t *body_bytes, void **state)
{
	static char seen; /* a state that is not NULL */
	struct exporter *e = arg;

	/* An answer before the request's end would end the connection. */
	if (!*state || *body_bytes) {
		*state = &seen;
		*body_bytes = 0;
		return MHD_YES;
	}
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return reply_words(c, MHD_HTTP_METHOD_NOT_ALLOWED, "GET or HEAD\n");
	if (!strcmp(url, "/"))
		return reply(c, MHD_HTTP_OK, "text/html; charset=utf-8", start_page,
			     sizeof(start_page) - 1);
	if (strcmp(url, "/metrics") != 0)
		return reply_words(c, MHD_HTTP_NOT_FOUND, "there is only /metrics\n");
	refresh(e);
	if (e->page.failed)
		return reply_words(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
	return reply(c, MHD_HTTP_OK, TEXT_TYPE, e->page.at, e->page.n);
}

/* ---- start ---- */

static void usage(FILE *f)
{
	fputs("usage: weft-exporter [OPTION]...\n"
	      "Serves what weftd counts to Prometheus. See weft-exporter(8).\n\n"
	      "  -c, --control PATH    weftd's control socket, if not " CONTROL_DEFAULT
	      "\n"
	      "  -l, --listen ADDRESS  where to be asked, if not " LISTEN_DEFAULT "\n"
	      "  --sessions N          how many sessions are shown, 256 if not told\n"
	      "  --no-dcgm             leave out the metrics that have DCGM's names\n"
	      "  --sandbox on|log|off  what is done about forbidden system calls\n"
	      "  -h, --help\n"
	      "  --version\n",
	      f);
}

struct options {
	const char *listen;
	enum sandbox_mode sandbox;
};

static int parse_number(const char *text, unsigned max, unsigned *ret)
{
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || n > max)
		return -EINVAL;
	*ret = (unsigned)n;
	return 0;
}

static int wrong(const char *option, const char *value, const char *words)
{
	fprintf(stderr, "weft-exporter: %s: \"%s\" %s\n", option, value, words);
	return EXIT_USAGE;
}

/* Returns an exit status, or -1 to go on. */
static int parse_options(int argc, char **argv, struct exporter *e, struct options *o)
{
	static const struct option longs[] = {
		{"control", required_argument, NULL, 'c'},
		{"listen", required_argument, NULL, 'l'},
		{"sessions", required_argument, NULL, 'n'},
		{"no-dcgm", no_argument, NULL, 'd'},
		{"sandbox", required_argument, NULL, 'S'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{},
	};
	int c;

	while ((c = getopt_long(argc, argv, "c:l:h", longs, NULL)) >= 0) {
		switch (c) {
		case 'c':
			e->source.control = optarg;
			break;
		case 'l':
			o->listen = optarg;
			break;
		case 'n':
			if (parse_number(optarg, SESSIONS_MAX, &e->source.sessions_max) <
			    0)
				return wrong("--sessions", optarg,
					     "is no number from 0 to 65536");
			break;
		case 'd':
			e->dcgm = false;
			break;
		case 'S':
			if (sandbox_mode_parse(optarg, &o->sandbox) < 0)
				return wrong("--sandbox", optarg,
					     "is none of on, log, off");
			break;
		case 'h':
			usage(stdout);
			return 0;
		case 'V':
			printf("weft-exporter %s\n", WEFT_VERSION);
			return 0;
		default:
			return EXIT_USAGE; /* getopt has said what */
		}
	}
	if (optind == argc)
		return -1;
	return wrong("argument", argv[optind], "is none of the options of --help");
}

/* HOST:PORT of numbers; [HOST]:PORT for IPv6, :PORT for all addresses. Returns a
 * descriptor that listens, or -errno. */
static int open_address(const char *text)
{
	const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICHOST |
						   AI_NUMERICSERV,
				       .ai_socktype = SOCK_STREAM};
	_cleanup_free_ char *host = strdup(text);
	const char *port = strrchr(text, ':');
	_cleanup_close_ int fd = -1;
	struct addrinfo *a;
	size_t n;
	int r = 0, on = 1;

	if (!host)
		return -ENOMEM;
	if (!port || !port[1])
		return -EINVAL;
	n = (size_t)(port - text);
	host[n] = '\0';
	if (n >= 2 && *text == '[' && text[n - 1] == ']') {
		memmove(host, host + 1, n - 2);
		host[n - 2] = '\0';
	}
	if (getaddrinfo(*host ? host : "::", port + 1, &hints, &a))
		return -EINVAL;
	fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0)
		r = -errno;
	freeaddrinfo(a);
	return r < 0 ? r : fd_steal(&fd);
}

/* Says the address, as far as it is known only now: port 0 is any that is free. */
static void say_address(int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	char host[64], port[16];

	if (getsockname(fd, (struct sockaddr *)&sa, &len) == 0 &&
	    getnameinfo((struct sockaddr *)&sa, len, host, sizeof(host), port,
			sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		log_info(strchr(host, ':') ? "listens at [%s]:%s" : "listens at %s:%s",
			 host, port);
}

static int open_http(struct exporter *e, const char *listen, struct MHD_Daemon **ret)
{
	int fd = open_address(listen);

	if (fd < 0) {
		log_error("--listen: \"%s\": %s", listen,
			  fd == -EINVAL ? "is no address such as 127.0.0.1:22888, "
					  "[::1]:22888 or :22888"
					: strerror(-fd));
		return fd;
	}
	*ret = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, e,
				MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
				CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
				CONNECTION_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				(size_t)CONNECTION_BYTES, MHD_OPTION_END);
	if (!*ret) {
		close(fd);
		log_error("libmicrohttpd does not start");
		return -EIO;
	}
	say_address(fd);
	return 0;
}

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	stop = number;
}

/* Signals come while it waits only: blocked from here on but for that. */
static void catch_signals(sigset_t *ret_waiting)
{
	struct sigaction sa = {.sa_handler = on_signal};
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, ret_waiting);
	sigdelset(ret_waiting, SIGTERM);
	sigdelset(ret_waiting, SIGINT);
}

static int serve(struct MHD_Daemon *http, const sigset_t *waiting)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(http, MHD_DAEMON_INFO_EPOLL_FD);
	struct pollfd pfd = {.fd = info ? info->epoll_fd : -1, .events = POLLIN};

	while (!stop) {
		MHD_UNSIGNED_LONG_LONG ms;
		struct timespec wait, *limit = NULL;

		if (MHD_get_timeout(http, &ms) == MHD_YES) {
			wait = (struct timespec){.tv_sec = (time_t)(ms / 1000),
						 .tv_nsec = (long)(ms % 1000 * 1000000)};
			limit = &wait;
		}
		if (ppoll(&pfd, 1, limit, waiting) < 0 && errno != EINTR)
			return -errno;
		if (!stop && MHD_run(http) != MHD_YES)
			return -EIO;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct exporter e = {
		.source = {.control = CONTROL_DEFAULT, .sessions_max = SESSIONS_DEFAULT},
		.dcgm = true};
	struct options o = {.listen = LISTEN_DEFAULT};
	struct sandbox box = {.kind = SANDBOX_EXPORTER, .files = FILES_MAX};
	struct MHD_Daemon *http;
	sigset_t waiting;
	int r = parse_options(argc, argv, &e, &o);

	if (r >= 0)
		return r;
	log_set_program("weft-exporter");
	if (!getenv("WEFT_LOG"))
		log_set_level(LOG_LVL_INFO);
	if (geteuid() == 0) {
		log_error(
			"does not run as root, who can do more than ask: start it by its "
			"service, or as a user who may use weftd's control socket");
		return 1;
	}
	box.mode = o.sandbox;
	catch_signals(&waiting);
	if (open_http(&e, o.listen, &http) < 0)
		return 1;
	r = sandbox_files(&box);
	if (r == 0)
		r = sandbox_enter(&box);
	if (r < 0) {
		log_error("sandbox: %s", strerror(-r));
		return 1;
	}
	notify_manager("READY=1");
	r = serve(http, &waiting);
	if (r < 0)
		log_error("ends: %s", strerror(-r));
	MHD_stop_daemon(http);
	source_fini(&e.source);
	text_fini(&e.page);
	return r < 0 ? 1 : 0;
}
