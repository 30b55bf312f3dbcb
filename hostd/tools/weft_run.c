/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weft-run: runs a program against the daemon of this machine, or against a private one
 * for as long as the program runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "tools/client.h"
#include "tools/private.h"
#include "tools/table.h"
#include "util/selfdir.h"
#include "util/size.h"

/* As env(1) and its relatives: our own failure, and the program's. */
#define EXIT_OWN        125
#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND  127

#define SYSTEM_SOCKET   "/run/weft/weft.sock"

struct options {
	const char *tenant, *socket, *control, *memory_max, *tpcs, *profile, *compare;
	struct private_opts device;
	bool stats, create, private;
};

struct run {
	struct options opt;
	struct private_daemon daemon; /* pid 0: none of our own */
	struct client client;
	bool have_client;
	char *host;            /* for WEFT_HOST */
	uint64_t last_session; /* before the program */
};

static void usage(FILE *f)
{
	fputs("usage: weft-run [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
	      "Runs a CUDA program on a shared GPU. See weft-run(1).\n\n"
	      "  -t, --tenant NAME     whose limits hold; \"local\" unless given\n"
	      "  --create              make that tenant if there is none\n"
	      "  --memory-max SIZE     its memory.max, if it is made here\n"
	      "  --tpcs LIST           its tpc.set, likewise: 0-19,40\n"
	      "  --control PATH        the daemon with this control socket\n"
	      "  --socket PATH         this tenant's socket; ask no daemon\n"
	      "  --stats               print at the end what the program did\n"
	      "  -h, --help\n"
	      "  --version\n\n"
	      "A daemon for this program alone, whichever of these is given:\n"
	      "  --private             on a real GPU if there is one\n"
	      "  --device soft|cuda|auto\n"
	      "                        on the software GPU, a real one, that if there is "
	      "one\n"
	      "  --memory SIZE         of the device\n"
	      "  --swap SIZE           host memory for device memory that is evicted\n"
	      "  --soft-tpcs N         size of the software device\n"
	      "  --threads N           host threads of its kernels\n"
	      "  --kernel.rewrite off|yield|share|auto\n"
	      "                        whose grids run as persistent threads\n\n"
	      "No daemon, the driver itself:\n"
	      "  --profile FILE        write where its kernels reach memory\n"
	      "  --compare FILE        say how well such a file foretells it\n",
	      f);
}

static int parse_options(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{"tenant", required_argument, NULL, 't'},
		{"device", required_argument, NULL, 'd'},
		{"tpcs", required_argument, NULL, 'T'},
		{"soft-tpcs", required_argument, NULL, 'n'},
		{"memory", required_argument, NULL, 'm'},
		{"swap", required_argument, NULL, 'w'},
		{"memory-max", required_argument, NULL, 'M'},
		{"threads", required_argument, NULL, 'j'},
		{"kernel.rewrite", required_argument, NULL, 'r'},
		{"profile", required_argument, NULL, 'P'},
		{"compare", required_argument, NULL, 'R'},
		{"socket", required_argument, NULL, 's'},
		{"control", required_argument, NULL, 'c'},
		{"stats", no_argument, NULL, 'S'},
		{"create", no_argument, NULL, 'C'},
		{"private", no_argument, NULL, 'p'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{},
	};
	const char **field[128] = {
		['t'] = &o->tenant,         ['d'] = &o->device.device,
		['n'] = &o->device.tpcs,    ['m'] = &o->device.memory,
		['j'] = &o->device.threads, ['s'] = &o->socket,
		['c'] = &o->control,        ['M'] = &o->memory_max,
		['w'] = &o->device.swap,    ['T'] = &o->tpcs,
		['r'] = &o->device.rewrite, ['P'] = &o->profile,
		['R'] = &o->compare,
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "+t:h", longs, NULL)) >= 0) {
		if (opt == 'h' || opt == 'V') {
			if (opt == 'h')
				usage(stdout);
			else
				printf("weft-run %s\n", WEFT_VERSION);
			exit(0);
		}
		if (opt == 'S')
			o->stats = true;
		else if (opt == 'C')
			o->create = true;
		else if (opt == 'p')
			o->private = true;
		else if (opt > 0 && opt < 128 && field[opt])
			*field[opt] = optarg;
		else
			return -EINVAL;
	}
	return optind < argc ? 0 : -EINVAL;
}

/* ---- finding a host ---- */

static int set_host(struct run *run, const char *path)
{
	return asprintf(&run->host, "unix:%s", path) < 0 ? -ENOMEM : 0;
}

static const char *tenant_name(const struct run *run)
{
	return run->opt.tenant ? run->opt.tenant : "local";
}

static struct json_object *tenant_request(const struct run *run, const char *cmd)
{
	struct json_object *q = client_request(cmd);

	json_object_object_add(q, "name", json_object_new_string(tenant_name(run)));
	return q;
}

/* Options that are keys of a tenant's; false: none was given. */
static bool has_limits(const struct options *o)
{
	return o->memory_max || o->tpcs;
}

static struct json_object *limits(const struct options *o)
{
	struct json_object *set = json_object_new_object();

	if (o->memory_max)
		json_object_object_add(set, "memory.max",
				       json_object_new_string(o->memory_max));
	if (o->tpcs)
		json_object_object_add(set, "tpc.set", json_object_new_string(o->tpcs));
	return set;
}

static int refuse_limit(const struct run *run)
{
	const struct options *o = &run->opt;

	fprintf(stderr,
		"weft-run: %s would change tenant %s for all its programs, and for good: "
		"weftctl set %s %s=%s, or --private\n",
		o->memory_max ? "--memory-max" : "--tpcs", tenant_name(run),
		tenant_name(run), o->memory_max ? "memory.max" : "tpc.set",
		o->memory_max ? o->memory_max : o->tpcs);
	return -EEXIST;
}

/* Asks; says what went wrong, with a hint. The answer is the caller's. */
static int ask(struct run *run, struct json_object *q, const char *hint,
	       struct json_object **ret)
{
	int r = client_ask(&run->client, q, ret);

	if (r < 0)
		fprintf(stderr, "weft-run: %s%s\n", client_error(r, *ret), hint);
	return r;
}

/* A daemon of our own is nobody else's; its tenant local was there before us. */
static int set_private_limit(struct run *run)
{
	struct json_object *q, *a = NULL;
	int r;

	if (!run->daemon.pid)
		return refuse_limit(run);
	q = tenant_request(run, "tenant-set");
	json_object_object_add(q, "set", limits(&run->opt));
	r = ask(run, q, "", &a);
	json_object_put(a);
	return r;
}

/* Makes the tenant with its limits; one that exists keeps its own. */
static int add_tenant(struct run *run)
{
	struct json_object *q = tenant_request(run, "tenant-add"), *a = NULL;
	bool limited = has_limits(&run->opt);
	int r;

	if (limited)
		json_object_object_add(q, "set", limits(&run->opt));
	r = ask(run, q, "", &a);
	if (r == 0 && limited && json_object_get_boolean(json_get(a, "existed")))
		r = set_private_limit(run);
	if (r == 0)
		r = set_host(run, json_str(json_get(a, "tenant"), "socket"));
	json_object_put(a);
	return r;
}

/* Finds the socket of a tenant that is there. */
static int find_tenant(struct run *run)
{
	struct json_object *q, *a = NULL;
	char hint[200] = "";
	int r;

	if (has_limits(&run->opt))
		return refuse_limit(run);
	if (run->opt.tenant)
		snprintf(hint, sizeof(hint), ": weftctl add %.63s, or --create",
			 run->opt.tenant);
	q = client_request("info");
	json_object_object_add(q, "tenant", json_object_new_string(tenant_name(run)));
	r = ask(run, q, hint, &a);
	if (r == 0)
		r = set_host(run, json_str(json_object_array_get_idx(
						   json_get(a, "tenants"), 0),
					   "socket"));
	json_object_put(a);
	return r;
}

static void note_last_session(struct run *run)
{
	struct json_object *a = NULL;

	if (client_ask(&run->client, client_request("list"), &a) == 0)
		run->last_session = json_u64(a, "sessions.last");
	json_object_put(a);
}

/* *ret_why, a sentence that may be NULL, is set if there is no daemon to talk to. */
static int use_control(struct run *run, const char *path, char **ret_why)
{
	bool create = run->daemon.pid || (run->opt.create && run->opt.tenant);
	int r = client_open(&run->client, path, ret_why);

	if (r < 0)
		return r;
	run->have_client = true;
	r = create ? add_tenant(run) : find_tenant(run);
	if (r == 0)
		note_last_session(run);
	return r;
}

static int use_private(struct run *run)
{
	_cleanup_free_ char *why = NULL;
	char path[128];
	int r = private_start(&run->opt.device, &run->daemon);

	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/control", run->daemon.dir);
	r = use_control(run, path, &why);
	if (why)
		fprintf(stderr, "weft-run: %s\n", why);
	return r;
}

static bool wants_private(const struct options *o)
{
	const struct private_opts *d = &o->device;

	return o->private || d->device || d->tpcs || d->memory || d->threads || d->swap ||
	       d->rewrite;
}

/* A program without wishes runs anyway, on nothing that a daemon shares out. */
static int fall_back(struct run *run, int error, const char *why)
{
	bool refused = error == -EACCES || error == -EPERM;

	if (refused)
		run->opt.device.device = "soft";
	fprintf(stderr, "weft-run: %s: %s (--private says so)\n", why,
		refused ? "private software GPU" : "private daemon");
	return use_private(run);
}

static int find_host(struct run *run)
{
	_cleanup_free_ char *why = NULL;
	struct options *o = &run->opt;
	int r;

	if (o->socket && (has_limits(o) || o->create || o->stats)) {
		fprintf(stderr, "weft-run: --memory-max, --tpcs, --create and --stats "
				"need a daemon to ask, --socket asks none\n");
		return -EINVAL;
	}
	if (o->socket)
		return set_host(run, o->socket);
	if (wants_private(o))
		return use_private(run);
	r = use_control(run, o->control, &why);
	if (r == 0 || run->have_client)
		return r;
	/* A daemon that we may not control but may use. */
	if (!o->control && !o->tenant && !has_limits(o) && !o->stats &&
	    access(SYSTEM_SOCKET, R_OK | W_OK) == 0)
		return set_host(run, SYSTEM_SOCKET);
	if (!o->control && !o->tenant && (!has_limits(o) || r == -ENOENT))
		return fall_back(run, r, why ? why : strerror(-r));
	fprintf(stderr, "weft-run: %s\n", why ? why : strerror(-r));
	return r;
}

/* ---- the program ---- */

static int set_environment(const struct run *run)
{
	_cleanup_free_ char *dir = NULL, *path = NULL;
	const char *old = getenv("LD_LIBRARY_PATH");
	int r = self_lib_dir(&dir);

	if (r < 0) {
		fprintf(stderr, "weft-run: libcuda.so.1 is not to be found\n");
		return r;
	}
	if (asprintf(&path, "%s%s%s", dir, old && *old ? ":" : "", old ? old : "") < 0)
		return -ENOMEM;
	if (setenv("LD_LIBRARY_PATH", path, 1) < 0 ||
	    setenv("WEFT_HOST", run->host, 1) < 0)
		return -errno;
	return 0;
}

/* ---- without a daemon: a profile ---- */

#define PROFILE_LIBRARY "libweft-profile.so"

static bool wants_profile(const struct options *o)
{
	return o->profile || o->compare;
}

static int refuse_profile(void)
{
	fprintf(stderr, "weft-run: --profile and --compare run the program by the driver "
			"itself: no other option goes with them\n");
	return -EINVAL;
}

/* Programs may change their directory. */
static int set_file(const char *variable, const char *path, int flags)
{
	_cleanup_close_ int fd = open(path, flags | O_CLOEXEC, 0666);
	_cleanup_free_ char *whole = fd < 0 ? NULL : realpath(path, NULL);
	int r = whole ? setenv(variable, whole, 1) : -1;

	if (r < 0)
		fprintf(stderr, "weft-run: %s: %s\n", path, strerror(errno));
	return r < 0 ? -errno : 0;
}

static int set_preload(void)
{
	_cleanup_free_ char *dir = NULL, *all = NULL;
	const char *old = getenv("LD_PRELOAD");
	int r = self_dir(PROFILE_LIBRARY, &dir);

	if (r < 0) {
		fprintf(stderr, "weft-run: " PROFILE_LIBRARY " is not to be found\n");
		return r;
	}
	if (asprintf(&all, "%s/" PROFILE_LIBRARY "%s%s", dir, old ? ":" : "",
		     old ? old : "") < 0)
		return -ENOMEM;
	return setenv("LD_PRELOAD", all, 1) < 0 ? -errno : 0;
}

static int set_profile(const struct options *o)
{
	int r = 0;

	if (wants_private(o) || has_limits(o) || o->tenant || o->socket || o->control ||
	    o->create || o->stats)
		return refuse_profile();
	if (o->compare)
		r = set_file("WEFT_PROFILE_COMPARE", o->compare, O_RDONLY);
	if (r == 0 && o->profile)
		r = set_file("WEFT_PROFILE", o->profile, O_WRONLY | O_CREAT);
	return r == 0 ? set_preload() : r;
}

static _Noreturn void exec_program(char **argv, pid_t parent)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* Without us nobody would wait for it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_OWN);
	execvp(*argv, argv);
	fprintf(stderr, "weft-run: %s: %s\n", *argv, strerror(errno));
	_exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

/* Passes on what was sent to us; what a terminal sends reaches the program by itself. */
static void forward(pid_t pid, const siginfo_t *si)
{
	if (si->si_code <= 0)
		kill(pid, si->si_signo);
}

static int wait_program(pid_t pid, const sigset_t *set)
{
	for (;;) {
		siginfo_t si;
		int status, sig = sigwaitinfo(set, &si);

		if (sig < 0)
			continue;
		if (sig != SIGCHLD) {
			forward(pid, &si);
			continue;
		}
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFEXITED(status) ? WEXITSTATUS(status)
						 : 128 + WTERMSIG(status);
	}
}

static int run_program(char **argv)
{
	static const int signals[] = {SIGCHLD, SIGTERM, SIGINT,  SIGHUP, SIGQUIT,
				      SIGUSR1, SIGUSR2, SIGALRM, SIGCONT};
	pid_t parent = getpid(), pid;
	sigset_t set;

	sigemptyset(&set);
	for (unsigned i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(&set, signals[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	pid = fork();
	if (pid < 0) {
		perror("weft-run: fork");
		return EXIT_OWN;
	}
	if (pid == 0)
		exec_program(argv, parent);
	return wait_program(pid, &set);
}

/* ---- afterwards ---- */

static void print_stats(struct json_object *a)
{
	static const struct table_column columns[] = {{"PROGRAM", false}, {"CALLS", true},
						      {"LAUNCHES", true}, {"PEAK", true},
						      {"TIME", true},     {"END", false}};
	struct table t = {columns, ARRAY_SIZE(columns), NULL, 0};
	struct json_object *ended = json_get(a, "ended");
	char text[32];

	for (size_t i = 0; i < json_count(ended); i++) {
		struct json_object *s = json_object_array_get_idx(ended, i);

		table_add(&t, "%s", json_str(s, "name"));
		table_add(&t, "%" PRIu64, json_u64(s, "calls"));
		table_add(&t, "%" PRIu64, json_u64(s, "launches"));
		table_add(&t, "%s",
			  size_format(json_u64(s, "memory.peak"), text, sizeof(text)));
		table_add(&t, "%s", time_format(json_u64(s, "time"), text, sizeof(text)));
		table_add(&t, "%s", json_str(s, "end"));
	}
	table_print(&t, stderr);
	print_refused(stderr, a);
}

/* Sessions end within moments of their program; wait for that, a second at most. */
static void stats(struct run *run)
{
	const char *tenant = tenant_name(run);
	struct timespec pause = {.tv_nsec = 10000000};

	for (unsigned i = 0; i < 100; i++) {
		struct json_object *q = client_request("info"), *a = NULL;
		bool last = i == 99;

		json_object_object_add(q, "tenant", json_object_new_string(tenant));
		json_object_object_add(q, "after",
				       json_object_new_uint64(run->last_session));
		if (client_ask(&run->client, q, &a) < 0) {
			fprintf(stderr, "weft-run: no statistics: weftd has gone\n");
			last = true;
		} else if (!json_count(json_get(a, "sessions")) || last) {
			print_stats(a);
			last = true;
		}
		json_object_put(a);
		if (last)
			return;
		nanosleep(&pause, NULL);
	}
}

int main(int argc, char **argv)
{
	struct run run = {.daemon.lifeline = -1};
	int status = EXIT_OWN;

	if (parse_options(argc, argv, &run.opt) < 0) {
		usage(stderr);
		return EXIT_OWN;
	}
	if (wants_profile(&run.opt))
		return set_profile(&run.opt) == 0 ? run_program(argv + optind) : EXIT_OWN;
	if (find_host(&run) == 0 && set_environment(&run) == 0)
		status = run_program(argv + optind);
	if (run.opt.stats && run.have_client && status != EXIT_OWN)
		stats(&run);
	if (run.have_client)
		client_close(&run.client);
	private_stop(&run.daemon);
	free(run.host);
	return status;
}
