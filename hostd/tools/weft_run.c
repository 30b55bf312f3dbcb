/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weft-run: runs a program against the daemon of this machine, or against a private one
 * for as long as the program runs.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "tools/client.h"
#include "tools/private.h"
#include "util/selfdir.h"
#include "util/size.h"

/* As env(1) and its relatives: our own failure, and the program's. */
#define EXIT_OWN        125
#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND  127

#define SYSTEM_SOCKET   "/run/weft/weft.sock"

struct options {
	const char *tenant, *socket, *control, *memory_max;
	struct private_opts device;
	bool stats;
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
	fprintf(f,
		"usage: weft-run [--tenant NAME] [--device soft|cuda|auto] [--tpcs N]\n"
		"                [--memory SIZE] [--swap SIZE] [--threads N] [--socket "
		"PATH] "
		"[--control PATH]\n"
		"                [--memory-max SIZE] [--stats] [--] PROGRAM "
		"[ARGUMENT]...\n"
		"See weft-run(1).\n");
}

static int parse_options(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{"tenant", required_argument, NULL, 't'},
		{"device", required_argument, NULL, 'd'},
		{"tpcs", required_argument, NULL, 'n'},
		{"memory", required_argument, NULL, 'm'},
		{"swap", required_argument, NULL, 'w'},
		{"memory-max", required_argument, NULL, 'M'},
		{"threads", required_argument, NULL, 'j'},
		{"socket", required_argument, NULL, 's'},
		{"control", required_argument, NULL, 'c'},
		{"stats", no_argument, NULL, 'S'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{},
	};
	const char **field[128] = {
		['t'] = &o->tenant,         ['d'] = &o->device.device,
		['n'] = &o->device.tpcs,    ['m'] = &o->device.memory,
		['j'] = &o->device.threads, ['s'] = &o->socket,
		['c'] = &o->control,        ['M'] = &o->memory_max,
		['w'] = &o->device.swap,
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

static struct json_object *tenant_request(const struct run *run, const char *cmd)
{
	struct json_object *q = client_request(cmd);

	json_object_object_add(
		q, "name",
		json_object_new_string(run->opt.tenant ? run->opt.tenant : "local"));
	return q;
}

static int set_limit(struct run *run)
{
	struct json_object *q, *set, *a = NULL;
	int r;

	if (!run->opt.memory_max)
		return 0;
	q = tenant_request(run, "tenant-set");
	set = json_object_new_object();
	json_object_object_add(set, "memory.max",
			       json_object_new_string(run->opt.memory_max));
	json_object_object_add(q, "set", set);
	r = client_ask(&run->client, q, &a);
	if (r < 0)
		fprintf(stderr, "weft-run: %s\n",
			a ? json_str(a, "error") : strerror(-r));
	json_object_put(a);
	return r;
}

/* Asks the daemon where the tenant's socket is; a new tenant is made. */
static int ask_daemon(struct run *run)
{
	struct json_object *a = NULL;
	int r = client_ask(&run->client, tenant_request(run, "tenant-add"), &a);

	if (r < 0) {
		fprintf(stderr, "weft-run: %s\n",
			a ? json_str(a, "error") : strerror(-r));
	} else {
		r = set_host(run, json_str(json_get(a, "tenant"), "socket"));
	}
	json_object_put(a);
	return r;
}

static void note_last_session(struct run *run)
{
	struct json_object *a = NULL;

	if (client_ask(&run->client, client_request("list"), &a) == 0)
		run->last_session = json_u64(a, "last_session");
	json_object_put(a);
}

static int use_control(struct run *run, const char *path)
{
	int r = client_open(&run->client, path);

	if (r < 0)
		return r;
	run->have_client = true;
	r = ask_daemon(run);
	if (r == 0)
		r = set_limit(run);
	if (r == 0)
		note_last_session(run);
	return r;
}

static int use_private(struct run *run)
{
	char path[128];
	int r = private_start(&run->opt.device, &run->daemon);

	if (r < 0) {
		fprintf(stderr, "weft-run: no daemon could be started: %s\n",
			strerror(-r));
		return r;
	}
	snprintf(path, sizeof(path), "%s/control", run->daemon.dir);
	return use_control(run, path);
}

static bool wants_device(const struct private_opts *o)
{
	return o->device || o->tpcs || o->memory || o->threads || o->swap;
}

static int find_host(struct run *run)
{
	const struct options *o = &run->opt;
	int r;

	if (o->socket && o->memory_max) {
		fprintf(stderr, "weft-run: --memory-max needs a daemon to ask\n");
		return -EINVAL;
	}
	if (o->socket)
		return set_host(run, o->socket);
	if (wants_device(&o->device))
		return use_private(run);
	r = use_control(run, o->control);
	if (r == 0 || run->have_client)
		return r;
	if (o->control) {
		fprintf(stderr, "weft-run: %s: %s\n", o->control, strerror(-r));
		return r;
	}
	/* A daemon that we may not control but may use. */
	if (!o->tenant && !o->memory_max && access(SYSTEM_SOCKET, R_OK | W_OK) == 0)
		return set_host(run, SYSTEM_SOCKET);
	return use_private(run);
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
	struct json_object *ended = json_get(a, "ended");

	fprintf(stderr, "%-20s %12s %10s %12s %10s  %s\n", "PROGRAM", "CALLS", "LAUNCHES",
		"PEAK", "TIME", "END");
	for (size_t i = 0; i < json_object_array_length(ended); i++) {
		struct json_object *s = json_object_array_get_idx(ended, i);
		char peak[32], took[32];

		fprintf(stderr, "%-20s %12llu %10llu %12s %10s  %s\n",
			json_str(s, "name"), (unsigned long long)json_u64(s, "calls"),
			(unsigned long long)json_u64(s, "launches"),
			size_format(json_u64(s, "memory_peak"), peak, sizeof(peak)),
			time_format(json_u64(s, "time_ns"), took, sizeof(took)),
			json_str(s, "end"));
	}
	print_refused(stderr, a);
}

/* Sessions end within moments of their program; wait for that, a second at most. */
static void stats(struct run *run)
{
	const char *tenant = run->opt.tenant ? run->opt.tenant : "local";
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
		} else if (!json_object_array_length(json_get(a, "sessions")) || last) {
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
