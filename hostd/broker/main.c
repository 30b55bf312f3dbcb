/* SPDX-License-Identifier: Apache-2.0 */
/* weftd: start, signals, end. See broker.h for how it is built. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/sockfile.h"
#include "broker/broker.h"
#include "broker/child/cgroup.h"
#include "broker/child/output.h"
#include "broker/child/users.h"
#include "broker/control.h"
#include "broker/operator/drain.h"
#include "broker/operator/events.h"
#include "broker/listener.h"
#include "broker/guests.h"
#include "broker/keep/books.h"
#include "broker/keep/changes.h"
#include "broker/keep/config.h"
#include "broker/keep/resume.h"
#include "broker/keep/supervisor.h"
#include "broker/loop/aside.h"
#include "broker/loop/loop.h"
#include "broker/memory/held.h"
#include "broker/compute/mps.h"
#include "broker/compute/pace.h"
#include "broker/compute/plugin.h"
#include "broker/compute/runlist.h"
#include "broker/compute/shared.h"
#include "broker/compute/slices.h"
#include "broker/compute/tpcs.h"
#include "broker/memory/prealloc.h"
#include "broker/memory/reclaim.h"
#include "broker/reload.h"
#include "broker/reply.h"
#include "broker/request.h"
#include "broker/tenant.h"
#include "broker/tenants.h"
#include "broker/uuid.h"
#include "broker/watchdog.h"
#include "broker/worker_msg.h"
#include "broker/workers.h"
#include "policies/blocks.h"
#include "policies/placement.h"
#include "policies/time.h"
#include "util/conf.h"
#include "util/fdstore.h"
#include "util/journal.h"
#include "util/lockfile.h"
#include "util/notify.h"
#include "util/sandbox.h"
#include "util/selfdir.h"

#define CONF_DEFAULT  "/etc/weft/weftd.conf"
#define FILES_MAX     (rlim_t)65536
#define LOCK_TRIES    10
#define LOCK_PAUSE_NS 50000000
#define DIR_TRIES     5

struct options {
	const char *config;
	bool background, check, keep;
	int ready_fd, lifeline_fd;
};

static void usage(FILE *f)
{
	fputs("usage: weftd [OPTION]...\n"
	      "Shares one GPU among virtual machines. See weftd(8), weftd.conf(5).\n\n"
	      "  -c, --config FILE     read this instead of " CONF_DEFAULT "\n"
	      "  --check-config        look for mistakes in it and exit\n"
	      "  --background          leave the terminal once the device is open, or "
	      "fail\n"
	      "  --foreground          stay (the default)\n"
	      "  --ready-fd N          write a byte there when the device is open\n"
	      "  --lifeline-fd N       end when its other side is closed\n"
	      "  --keep-sessions       sessions outlive this process\n"
	      "  -h, --help\n"
	      "  --version\n\n"
	      "Keys of the file's [daemon] section, which go before it:\n"
	      "  --run-dir DIR         where sockets are made\n"
	      "  --socket PATH         of the tenant \"local\"\n"
	      "  --control PATH        the control socket\n"
	      "  --operators GROUP     who may use it, beside root and the daemon's "
	      "user\n"
	      "  --viewers GROUP       who may look, and change nothing\n"
	      "  --user NAME           whose group workers and listeners have\n"
	      "  --users FIRST-LAST    numbers that they run as, or none\n"
	      "  --sandbox on|log|off  the sandbox of workers and listeners\n"
	      "  --cgroup PATH|none    where each tenant has a cgroup of its own\n"
	      "  --device soft|cuda|auto\n"
	      "                        the software GPU, a real one, that if there is "
	      "one\n"
	      "  --memory SIZE         of the device, at most\n"
	      "  --tpcs N              size of the software device\n"
	      "  --threads N           host threads of its kernels\n"
	      "  --pool N              workers kept ready\n"
	      "  --swap SIZE           host memory for device memory that is evicted\n"
	      "  --reserve SIZE        device memory kept free\n"
	      "  --piece SIZE          in what pieces memory moves\n"
	      "  --placement NAME      which moves first: lru, largest, random\n"
	      "  --kernel.rewrite off|yield|share|auto\n"
	      "                        whose grids run as persistent threads\n",
	      f);
}

/* Options that are keys of the file's [daemon] section. */
static const struct option longs[] = {
	{"config", required_argument, NULL, 'c'},
	{"foreground", no_argument, NULL, 'f'}, /* the default */
	{"background", no_argument, NULL, 'b'},
	{"ready-fd", required_argument, NULL, 'r'},
	{"lifeline-fd", required_argument, NULL, 'l'},
	{"check-config", no_argument, NULL, 'k'},
	{"keep-sessions", no_argument, NULL, 'K'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{"run-dir", required_argument, NULL, 1},
	{"socket", required_argument, NULL, 1},
	{"control", required_argument, NULL, 1},
	{"user", required_argument, NULL, 1},
	{"users", required_argument, NULL, 1},
	{"sandbox", required_argument, NULL, 1},
	{"cgroup", required_argument, NULL, 1},
	{"device", required_argument, NULL, 1},
	{"tpcs", required_argument, NULL, 1},
	{"memory", required_argument, NULL, 1},
	{"threads", required_argument, NULL, 1},
	{"pool", required_argument, NULL, 1},
	{"swap", required_argument, NULL, 1},
	{"reserve", required_argument, NULL, 1},
	{"piece", required_argument, NULL, 1},
	{"placement", required_argument, NULL, 1},
	{"kernel.rewrite", required_argument, NULL, 1},
	{"operators", required_argument, NULL, 1},
	{"viewers", required_argument, NULL, 1},
	{},
};

static void set_key(struct conf *c, const char *key, const char *value)
{
	_cleanup_free_ char *why = NULL;
	int r = conf_daemon_set(c, key, value);

	if (r == 0)
		return;
	why = conf_error(key, value, r);
	fprintf(stderr, "weftd: --%s\n", why ? why : key);
	exit(64);
}

/* Ends the program where text is no descriptor: 0 in its place would be somebody's. */
static int descriptor(const char *option, const char *text)
{
	char *end = NULL;
	long fd = text && *text ? strtol(text, &end, 10) : -1;

	if (!end || *end || fd < 0 || fd > INT_MAX) {
		fprintf(stderr, "weftd: --%s is not a descriptor's number: %s\n", option,
			text ? text : "");
		exit(64);
	}
	return (int)fd;
}

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
			o->ready_fd = descriptor("ready-fd", optarg);
			break;
		case 'l':
			o->lifeline_fd = descriptor("lifeline-fd", optarg);
			break;
		case 'k':
			o->check = true;
			break;
		case 'K':
			o->keep = true;
			break;
		case 'h':
			usage(stdout);
			exit(0);
		case 'V':
			printf("weftd %s\n", WEFT_VERSION);
			exit(0);
		case 1:
			set_key(c, longs[index].name, optarg);
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

static struct {
	int argc;
	char **argv;
	struct options o;
} started;

/* The command line says which file; then it goes before what the file says. */
static int read_conf(struct conf *c)
{
	_cleanup_free_ char *why = NULL;
	int r = conf_init(c);

	if (r < 0)
		return r;
	optind = 1;
	parse_options(started.argc, started.argv, c, &started.o);
	r = conf_read_all(c, started.o.config ? started.o.config : CONF_DEFAULT,
			  started.o.config != NULL, &why);
	if (r < 0) {
		log_error("%s", why ? why : strerror(-r));
		return r;
	}
	optind = 1;
	parse_options(started.argc, started.argv, c, &started.o);
	return 0;
}

static const char *conf_name(const struct conf *c)
{
	const char *named = started.o.config;

	if (named)
		return named;
	return c->n_dropins || access(CONF_DEFAULT, R_OK) == 0 ? CONF_DEFAULT : NULL;
}

/* Says what was looked at, and what could not be. */
static void say_right(const struct conf *c)
{
	printf("%s", conf_name(c) ? conf_name(c) : "no file");
	if (c->n_dropins)
		printf(" and %u of %s.d", c->n_dropins,
		       started.o.config ? started.o.config : CONF_DEFAULT);
	puts(": no mistakes");
	if (!c->memory)
		puts("limits are not compared with the device, which is not open: a "
		     "reload "
		     "does, and memory in [daemon] says how large it is");
}

/* Sessions are to outlive this process, and nobody has a store for it. */
static bool starts_another(const struct options *o)
{
	const char *manager = getenv("NOTIFY_SOCKET");
	bool again;

	return o->keep && !supervisor_is_above(&again) && (!manager || !*manager);
}

/* Makes a configuration whole that was just read; logs what is wrong with it. One that
 * only starts another weftd, or looks for mistakes, is not the one that changes were for. */
static int complete(struct conf *c)
{
	if (!started.o.check && !starts_another(&started.o))
		changes_apply(c);
	return conf_complete(c) < 0 || reload_report(c, conf_name(c)) ? -EINVAL : 0;
}

static void check_time(const struct conf *c)
{
	_cleanup_free_ char *why = NULL;

	if (plugin_find(c->time, &why))
		return;
	log_error("%s", why ? why : c->time);
	exit(78);
}

/* Returns 0, or -errno: there are mistakes, which the log names. */
static int configure(int argc, char **argv, struct conf *c)
{
	int r;

	started.argc = argc;
	started.argv = argv;
	started.o = (struct options){.ready_fd = -1, .lifeline_fd = -1};
	r = read_conf(c);
	if (r == 0)
		r = complete(c);
	if (r < 0 && (started.o.check || starts_another(&started.o)))
		exit(78);
	if (started.o.check) {
		check_time(c);
		say_right(c);
		exit(0);
	}
	return r;
}

/* Takes the configuration of the weftd before this one. False: there was none. */
static bool configure_as_before(struct conf *c)
{
	_cleanup_free_ char *text = config_kept();
	struct options o = started.o; /* have been taken, but for the keys */

	conf_fini(c);
	if (!text || conf_init(c) < 0)
		return false;
	optind = 1;
	parse_options(started.argc, started.argv, c, &o);
	if (conf_parse(c, text, NULL) < 0)
		return false;
	optind = 1;
	parse_options(started.argc, started.argv, c, &o);
	if (complete(c) < 0)
		return false;
	log_error("configuration not read: sessions go on with the one before");
	return true;
}

/* ---- start ---- */

static int make_run_dir(const char *path)
{
	struct stat st;

	/* Tenants' sockets have rights of their own; a user's are the user's. */
	if (mkdir(path, geteuid() == 0 ? 0755 : 0700) < 0 && errno != EEXIST)
		return -errno;
	if (lstat(path, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0) ||
	    st.st_mode & 022)
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
	struct json_object *e;
	char by[64];

	if (read(src->fd, &si, sizeof(si)) != sizeof(si))
		return;
	if (si.ssi_signo == SIGHUP) {
		snprintf(by, sizeof(by), "SIGHUP from uid %u, pid %u", si.ssi_uid,
			 si.ssi_pid);
		reload(b, by);
		return;
	}
	b->leaves = si.ssi_signo == SIGTERM && fdstore_is_open();
	log_info("%s: %s from pid %u, uid %u",
		 b->leaves ? "leaves its sessions to the next weftd" : "ends",
		 strsignal((int)si.ssi_signo), si.ssi_pid, si.ssi_uid);
	snprintf(by, sizeof(by), "uid %u, pid %u", si.ssi_uid, si.ssi_pid);
	e = event_new(b, "weftd.stopping", NULL, 0);
	reply_str(e, "by", by);
	event_post(b, e);
	b->stop = true;
}

/* Called when the holder of the other end has gone: weft-run, for its private daemon. */
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
	r = source_add(b->loop, &b->signals, fd, EPOLLIN, on_signal);
	if (r < 0 || o->lifeline_fd < 0)
		return r;
	fcntl(o->lifeline_fd, F_SETFD, FD_CLOEXEC);
	return source_add(b->loop, &b->lifeline, o->lifeline_fd, EPOLLIN, on_lifeline);
}

static int open_control(struct broker *b)
{
	const char *path = b->conf->control;
	int r = control_open(b, path, request_handle);

	if (r < 0)
		log_error("control socket %s: %s", path, sockfile_error(r));
	return r;
}

static int open_tenants(struct broker *b)
{
	struct conf_tenant *ct;
	int r;

	list_for_each (ct, &b->conf->tenants, link) {
		r = tenant_new(b, ct, NULL);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- leaving the terminal ---- */

static int background_fd = -1; /* of the process that was started, until we are ready */

static void point_at_null(int first, int last)
{
	_cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = first; null >= 0 && fd <= last; fd++)
		(void)dup2(null, fd);
}

/* Goes on in a child. Who was started stays until the child is ready, or ends as it. */
static void go_background(void)
{
	int p[2], status = 0;
	pid_t pid;
	char c;

	if (pipe2(p, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		log_error("cannot leave the terminal: %s", strerror(errno));
		exit(1);
	}
	if (pid) {
		close(p[1]);
		if (read(p[0], &c, 1) == 1)
			exit(0);
		waitpid(pid, &status, 0);
		exit(WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : 1);
	}
	close(p[0]);
	background_fd = p[1];
	setsid();
	(void)!chdir("/");
	point_at_null(STDIN_FILENO, STDOUT_FILENO);
}

/* From now on a terminal hears nothing more; a file or a pipe goes on as the log. */
static void background_ready(void)
{
	if (background_fd < 0)
		return;
	if (isatty(STDERR_FILENO))
		point_at_null(STDERR_FILENO, STDERR_FILENO);
	(void)!write(background_fd, "", 1);
	close(fd_steal(&background_fd));
}

/* The device's size is known now. */
static void on_ready(struct broker *b)
{
	struct json_object *e;
	struct tenant *t;

	list_for_each (t, &b->tenants, link)
		cgroup_limits(t);
	if (b->conf->device_total != b->device_total) {
		b->conf->device_total = b->device_total;
		(void)reload_report(b->conf, NULL);
	}
	e = event_new(b, "weftd.ready", NULL, 0);
	reply_str(e, "device", b->device_name);
	event_post(b, e);
	notify_manager("READY=1");
	background_ready();
}

/* The files of the driver's that its library would have made by this program, which it
 * could not under no_new_privs. */
static void make_device_files(const struct conf *c)
{
	char *argv[] = {(char *)"/usr/bin/nvidia-modprobe", (char *)"-c0", (char *)"-u",
			NULL};
	pid_t pid;

	if (!strcmp(c->device, "soft") || !sandbox_absent(SANDBOX_WORKER_CUDA) ||
	    access(*argv, X_OK) < 0)
		return;
	pid = fork();
	if (pid == 0) {
		execv(*argv, argv);
		_exit(127);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

/* Ours, and our children's before they have less. */
static int give_up_rights(const struct conf *c)
{
	const struct sandbox box = {
		.kind = SANDBOX_BROKER,
		/* Sockets and windows of others, and children that become others. */
		.capabilities = SANDBOX_CAP(CAP_CHOWN) | SANDBOX_CAP(CAP_DAC_OVERRIDE) |
				SANDBOX_CAP(CAP_FOWNER) | SANDBOX_CAP(CAP_KILL) |
				SANDBOX_CAP(CAP_SETGID) | SANDBOX_CAP(CAP_SETUID),
	};
	int r;

	make_device_files(c);
	if (strcmp(c->sandbox, "on") != 0)
		return 0;
	r = sandbox_enter(&box);
	if (r < 0)
		log_error("sandbox: %s", strerror(-r));
	return r;
}

static const char *run_dir_error(int error)
{
	switch (error) {
	case -EBUSY:
		return "another weftd uses it";
	case -EPERM:
		return "is no directory, is another user's, or others may write it: "
		       "use another one (--run-dir)";
	case -ENOENT:
		return "the directory above it does not exist";
	default:
		return strerror(-error);
	}
}

/* Timers run in this order: guests that wait get workers before more are started, and memory
 * moves as turns were decided just now. */
static int open_loop(struct broker *b)
{
	static uint64_t (*const timers[])(void *, uint64_t) = {
		guests_tick,        workers_tick,  listener_tick, pace_tick,
		reclaim_tick,       prealloc_tick, output_tick,   held_tick,
		events_tick,        control_tick,  watchdog_tick, resume_tick,
		books_tick,         shared_tick,   slices_tick,   tpcs_tick,
		control_trace_tick, mps_tick,
	};
	int r = loop_new(&b->loop);

	for (unsigned i = 0; i < ARRAY_SIZE(timers) && r == 0; i++)
		r = loop_timer(b->loop, timers[i], b);
	return r;
}

static int start(struct broker *b, const struct options *o)
{
	int r;

	r = open_loop(b);
	if (r == 0)
		r = aside_open();
	if (r < 0)
		return r;
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
		log_error("run directory %s: %s", b->conf->run_dir, run_dir_error(r));
		return r;
	}
	pace_init(b);
	r = open_sources(b, o);
	if (r == 0)
		r = runlist_open(b);
	if (r == 0)
		r = open_control(b);
	if (r == 0)
		r = open_tenants(b);
	return r;
}

static void fini(struct broker *b)
{

	workers_fini(b);
	tenants_fini(b);
	control_fini(b);
	events_fini(b);
	plugin_fini(b);
	tpcs_fini(b);
	runlist_close(b);
	loop_flush(b->loop);
	source_remove(b->loop, &b->signals);
	source_remove(b->loop, &b->lifeline);
	loop_free(b->loop);
	free(b->libexec);
	free(b->seen);
	free(b->shares);
	users_fini(&b->users);
	closep(&b->cgroup);
}

/* Raises the limit of open files, and returns half of it: the descriptors for what
 * sessions share. */
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

/* Ends as a process that was told to, without touching anything: sessions go on, and so
 * does whoever connects to a socket. */
static _Noreturn void leave(void)
{
	sigset_t set;

	signal(SIGTERM, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	raise(SIGTERM);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	_exit(1);
}

/* Sessions are to outlive this process: somebody has a store for us, or we are somebody
 * who has one for another. */
static void open_store(struct options *o, char **argv)
{
	bool again = false, above = supervisor_is_above(&again);
	int r;

	if (!o->keep)
		return;
	if (o->lifeline_fd >= 0) {
		fputs("weftd: --lifeline-fd ends all, --keep-sessions nothing\n", stderr);
		exit(64);
	}
	if (starts_another(o)) {
		if (o->background)
			go_background();
		exit(supervisor_run(argv, background_ready));
	}
	if (above)
		o->background = false;
	if (again)
		o->ready_fd = -1;
	r = fdstore_open();
	if (r == 0)
		r = books_open();
	if (r == 0)
		return;
	log_error("descriptor store: %s", strerror(-r));
	exit(1);
}

static void post_restarted(struct broker *b, unsigned n_sessions)
{
	struct json_object *e = event_new(b, "weftd.restarted", NULL, 0);

	reply_u64(e, "sessions", n_sessions);
	event_post(b, e);
}

/* A policy that cannot be had ends no session. */
static const struct time_policy *find_time(const char *name)
{
	_cleanup_free_ char *why = NULL;
	const struct time_policy *p = plugin_find(name, &why);

	if (p)
		return p;
	log_error("%s: fair decides in its place", why ? why : name);
	return &time_fair;
}

static struct broker broker;

/* The journal has fields of what a message is about, which its first words say. */
static bool log_with_fields(enum log_level level, const char *text)
{
	struct journal_entry e = {.level = level, .program = "weftd", .text = text};
	char name[CONF_NAME_MAX + 1];
	const struct tenant *t;

	if (journal_about(text, name, &e.session)) {
		t = tenant_find(&broker, name);
		e.tenant = name;
		e.vm_uuid = t ? t->vm_uuid : NULL;
	}
	return journal_send(&e);
}

int main(int argc, char **argv)
{
	const struct options *o = &started.o;
	struct broker *b = &broker;
	struct conf conf;
	int r;

	log_set_program("weftd");
	if (!getenv("WEFT_LOG"))
		log_set_level(LOG_LVL_INFO);
	list_init(&b->tenants);
	log_set_sink(log_with_fields);
	r = configure(argc, argv, &conf);
	open_store(&started.o, argv);
	if (r == 0)
		config_keep(conf.text);
	else if (!configure_as_before(&conf))
		exit(78);
	b->conf = &conf;
	b->conf_name = conf_name(&conf);
	b->read_conf = read_conf;
	b->keep_ready = conf.pool;
	b->host_max = conf.host_max;
	b->swap = conf.swap;
	b->kill_ns = conf.kill_s * NSEC_PER_SEC;
	b->piece = conf.piece;
	b->placement = placement_find(conf.placement);
	b->time = find_time(conf.time);
	b->blocks = blocks_policy_find(conf.blocks);
	b->control.fd = b->signals.fd = b->lifeline.fd = b->runlist_fd = -1;
	b->ready_fd = o->ready_fd;
	if (o->ready_fd >= 0)
		fcntl(o->ready_fd, F_SETFD, FD_CLOEXEC);
	list_init(&b->loud);
	list_init(&b->workers);
	list_init(&b->leaving);
	list_init(&b->queue);
	list_init(&b->clients);
	list_init(&b->waiters);
	b->shares_max = raise_files();
	uuid_make("/etc/machine-id", b->device_uuid);
	b->on_ready = on_ready;
	b->on_message = worker_said;
	b->serve_guests = guests_match;
	b->on_session_end = drain_ended;
	b->resume_said = resume_said;
	b->resume_end = resume_end;
	b->guests = &guests_of_listeners;
	if (o->background)
		go_background();
	cgroups_open(b);
	r = give_up_rights(&conf);
	if (r == 0)
		r = start(b, o);
	if (r == 0) {
		unsigned n = resume_all(b);

		if (n)
			workers_device_known(b);
		if (books_head() && books_head()->times > 1)
			post_restarted(b, n);
		fdstore_remove_rest();
		workers_fill(b);
		r = loop_run(b->loop, &b->stop);
	}
	notify_manager("STOPPING=1");
	if (b->leaves)
		leave();
	if (r == 0 && !b->exit_status)
		changes_end();
	fini(b);
	conf_fini(&conf);
	return r < 0 ? 1 : b->exit_status;
}
