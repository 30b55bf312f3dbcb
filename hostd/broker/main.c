/* SPDX-License-Identifier: Apache-2.0 */
/* weftd: start, signals, end. See broker.h for how it is built. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "broker/broker.h"
#include "util/lockfile.h"
#include "util/selfdir.h"

#define CONF_DEFAULT  "/etc/weft/weftd.conf"
#define LOCAL_TENANT  "local"
#define FILES_MAX     (rlim_t)65536
#define LOCK_TRIES    10
#define LOCK_PAUSE_NS 50000000
#define DIR_TRIES     5

struct options {
	const char *config;
	bool background;
	int ready_fd, lifeline_fd;
};

static void usage(FILE *f)
{
	fprintf(f, "usage: weftd [--config FILE] [--background] [--run-dir DIR] "
		   "[--device soft|cuda|auto]\n"
		   "             [--tpcs N] [--memory SIZE] [--threads N] [--pool N]\n"
		   "             [--swap SIZE] [--reserve SIZE] [--chunk SIZE] "
		   "[--placement NAME]\n"
		   "             [--ready-fd N] [--lifeline-fd N]\n"
		   "See weftd(8).\n");
}

/* Options that are keys of the file's [daemon] section. */
static const struct option longs[] = {
	{"config", required_argument, NULL, 'c'},
	{"foreground", no_argument, NULL, 'f'}, /* the default */
	{"background", no_argument, NULL, 'b'},
	{"ready-fd", required_argument, NULL, 'r'},
	{"lifeline-fd", required_argument, NULL, 'l'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{"run-dir", required_argument, NULL, 1},
	{"socket", required_argument, NULL, 1},
	{"control", required_argument, NULL, 1},
	{"user", required_argument, NULL, 1},
	{"users", required_argument, NULL, 1},
	{"sandbox", required_argument, NULL, 1},
	{"device", required_argument, NULL, 1},
	{"tpcs", required_argument, NULL, 1},
	{"memory", required_argument, NULL, 1},
	{"threads", required_argument, NULL, 1},
	{"pool", required_argument, NULL, 1},
	{"swap", required_argument, NULL, 1},
	{"reserve", required_argument, NULL, 1},
	{"chunk", required_argument, NULL, 1},
	{"placement", required_argument, NULL, 1},
	{},
};

static void parse_options(int argc, char **argv, struct conf *c, struct options *o)
{
	int opt, index = 0;

	while ((opt = getopt_long(argc, argv, "c:fh", longs, &index)) >= 0) {
		switch (opt) {
		case 'c':
			o->config = optarg;
			break;
		case 'f':
			o->background = false;
			break;
		case 'b':
			o->background = true;
			break;
		case 'r':
			o->ready_fd = atoi(optarg);
			break;
		case 'l':
			o->lifeline_fd = atoi(optarg);
			break;
		case 'h':
			usage(stdout);
			exit(0);
		case 'V':
			printf("weftd %s\n", WEFT_VERSION);
			exit(0);
		case 1:
			if (conf_daemon_set(c, longs[index].name, optarg) < 0) {
				fprintf(stderr, "weftd: --%s %s: bad value\n",
					longs[index].name, optarg);
				exit(64);
			}
			break;
		default:
			usage(stderr);
			exit(64);
		}
	}
	if (optind != argc) {
		usage(stderr);
		exit(64);
	}
}

/* The file first, then the command line again on top of it. */
static void configure(int argc, char **argv, struct conf *c, struct options *o)
{
	_cleanup_free_ char *why = NULL;
	int r;

	if (conf_init(c) < 0)
		exit(1);
	parse_options(argc, argv, c, o);
	if (!o->config && access(CONF_DEFAULT, R_OK) < 0)
		return;
	r = conf_read(c, o->config ? o->config : CONF_DEFAULT, &why);
	if (r < 0) {
		fprintf(stderr, "weftd: %s\n", why ? why : strerror(-r));
		exit(78);
	}
	optind = 1;
	parse_options(argc, argv, c, o);
}

/* ---- start ---- */

/* The same for every start on a machine; a VM's programs may remember it. */
static void make_uuid(uint8_t *ret_uuid)
{
	uint64_t h[2] = {0xcbf29ce484222325ull, 0x84222325cbf29ce4ull};
	char id[64] = "";
	FILE *f = fopen("/etc/machine-id", "re");

	if (!f || !fgets(id, sizeof(id), f)) {
		if (getrandom(id, 32, 0) < 0)
			memset(id, 'w', 32);
	}
	if (f)
		fclose(f);
	for (unsigned i = 0; i < 2 * sizeof(id); i++)
		h[i & 1] = (h[i & 1] ^ (uint8_t)id[i / 2]) * 0x100000001b3ull;
	memcpy(ret_uuid, h, 16);
	ret_uuid[6] = (ret_uuid[6] & 0x0f) | 0x80; /* version 8: our own */
	ret_uuid[8] = (ret_uuid[8] & 0x3f) | 0x80;
}

static int make_run_dir(const char *path)
{
	struct stat st;

	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return -errno;
	if (stat(path, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0))
		return -EPERM;
	return 0;
}

/* -ESTALE: the directory was removed before we had the lock. */
static int lock_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	/* A child that a killed daemon was just starting has the lock until it is a
	 * program. */
	for (unsigned i = 0; i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
			if (lockfile_is_at(fd, path))
				return fd;
			close(fd);
			return -ESTALE;
		}
		nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE_NS}, NULL);
	}
	close(fd);
	return -EBUSY;
}

/* One daemon for a run directory; the lock goes with the process. */
static int lock_run_dir(const char *dir)
{
	_cleanup_free_ char *path = NULL;
	int r = -ESTALE;

	if (asprintf(&path, "%s/lock", dir) < 0)
		return -ENOMEM;
	/* Until we have the lock, weft-run may take the directory for one left behind. */
	for (unsigned i = 0; i < DIR_TRIES && r == -ESTALE; i++) {
		r = make_run_dir(dir);
		if (r == 0)
			r = lock_file(path);
	}
	return r;
}

static void on_signal(struct source *src, uint32_t events)
{
	struct broker *b = container_of(src, struct broker, signals);
	struct signalfd_siginfo si;

	if (read(src->fd, &si, sizeof(si)) == sizeof(si)) {
		log_info("ends: signal %u", si.ssi_signo);
		b->stop = true;
	}
}

/* Whoever holds the other end has gone: weft-run, for its private daemon. */
static void on_lifeline(struct source *src, uint32_t events)
{
	struct broker *b = container_of(src, struct broker, lifeline);

	log_info("ends: lifeline closed");
	b->stop = true;
}

static int open_sources(struct broker *b, const struct options *o)
{
	sigset_t set;
	int fd, r;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = source_add(b, &b->signals, fd, EPOLLIN, on_signal);
	if (r < 0 || o->lifeline_fd < 0)
		return r;
	fcntl(o->lifeline_fd, F_SETFD, FD_CLOEXEC);
	return source_add(b, &b->lifeline, o->lifeline_fd, EPOLLIN, on_lifeline);
}

static int open_control(struct broker *b)
{
	_cleanup_free_ char *path = NULL;
	int r;

	if (b->conf->control)
		path = strdup(b->conf->control);
	else if (asprintf(&path, "%s/control", b->conf->run_dir) < 0)
		path = NULL;
	if (!path)
		return -ENOMEM;
	r = control_open(b, path);
	if (r < 0)
		log_error("control socket %s: %s", path, sockfile_error(r));
	return r;
}

/* The tenant of programs on this machine, and those of the file. */
static int open_tenants(struct broker *b)
{
	struct conf_tenant *ct, *local = NULL;
	int r;

	list_for_each (ct, &b->conf->tenants, link) {
		if (!strcmp(ct->name, LOCAL_TENANT))
			local = ct;
	}
	if (!local) {
		local = conf_tenant_new(LOCAL_TENANT);
		if (!local)
			return -ENOMEM;
		list_append(&b->conf->tenants, &local->link);
	}
	if (!local->socket && b->conf->socket)
		local->socket = strdup(b->conf->socket);
	else if (!local->socket &&
		 asprintf(&local->socket, "%s/weft.sock", b->conf->run_dir) < 0)
		return -ENOMEM;
	list_for_each (ct, &b->conf->tenants, link) {
		r = tenant_new(b, ct, NULL);
		if (r < 0)
			return r;
	}
	return 0;
}

/* systemd's readiness protocol: one datagram. */
static void notify_systemd(void)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;

	if (!path || !*path || strlen(path) >= sizeof(sa.sun_path))
		return;
	strcpy(sa.sun_path, path);
	if (*path == '@')
		*sa.sun_path = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		(void)sendto(fd, "READY=1", 7, MSG_NOSIGNAL, (struct sockaddr *)&sa,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
					 strlen(path)));
}

static int start(struct broker *b, const struct options *o)
{
	int r;

	b->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (b->epoll < 0)
		return -errno;
	r = self_dir("weft-worker", &b->libexec);
	if (r < 0) {
		log_error("weft-worker is not to be found");
		return r;
	}
	r = users_open(&b->users, b->conf->users_first, b->conf->users_n, b->conf->user);
	if (r < 0) {
		log_error("user %s: %s", b->conf->user ? b->conf->user : "weft or nobody",
			  r == -EPERM ? "workers do not run as root"
				      : "there is no such user");
		return r;
	}
	r = lock_run_dir(b->conf->run_dir);
	if (r < 0) {
		log_error("run directory %s: %s", b->conf->run_dir,
			  r == -EBUSY ? "another weftd uses it" : strerror(-r));
		return r;
	}
	r = open_sources(b, o);
	if (r == 0)
		r = open_control(b);
	if (r == 0)
		r = open_tenants(b);
	return r;
}

static void fini(struct broker *b)
{
	pool_fini(b);
	tenants_fini(b);
	control_fini(b);
	loop_flush(b);
	source_remove(b, &b->signals);
	source_remove(b, &b->lifeline);
	closep(&b->epoll);
	free(b->libexec);
	free(b->numbers);
	users_fini(&b->users);
}

/* What sessions share holds descriptors, and half of them are for that. */
static unsigned raise_files(void)
{
	struct rlimit l = {.rlim_cur = 1024, .rlim_max = 1024};

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 &&
	    l.rlim_cur < MIN(l.rlim_max, FILES_MAX)) {
		l.rlim_cur = MIN(l.rlim_max, FILES_MAX);
		(void)setrlimit(RLIMIT_NOFILE, &l);
		(void)getrlimit(RLIMIT_NOFILE, &l);
	}
	return (unsigned)(MIN(l.rlim_cur, FILES_MAX) / 2);
}

static struct broker broker;

int main(int argc, char **argv)
{
	struct options o = {.ready_fd = -1, .lifeline_fd = -1};
	struct broker *b = &broker;
	struct conf conf;
	int r;

	log_set_program("weftd");
	if (!getenv("WEFT_LOG"))
		log_set_level(LOG_LVL_INFO);
	configure(argc, argv, &conf, &o);
	b->conf = &conf;
	b->keep_ready = conf.pool;
	b->host_max = conf.host_max;
	b->swap = conf.swap;
	b->chunk = conf.chunk;
	b->placement = placement_find(conf.placement);
	b->epoll = b->control.fd = b->signals.fd = b->lifeline.fd = -1;
	b->ready_fd = o.ready_fd;
	if (o.ready_fd >= 0)
		fcntl(o.ready_fd, F_SETFD, FD_CLOEXEC);
	list_init(&b->deferred);
	list_init(&b->loud);
	list_init(&b->tenants);
	list_init(&b->workers);
	list_init(&b->leaving);
	list_init(&b->queue);
	list_init(&b->clients);
	list_init(&b->holds);
	b->shares_max = raise_files();
	make_uuid(b->device_uuid);
	b->on_ready = notify_systemd;
	if (o.background && daemon(0, 1) < 0)
		return 1;
	r = start(b, &o);
	if (r == 0) {
		pool_fill(b);
		r = loop_run(b);
	}
	fini(b);
	conf_fini(&conf);
	if (r < 0)
		log_error("%s", strerror(-r));
	return r < 0 ? 1 : b->exit_status;
}
