/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weft-guest-gl: OpenGL for the programs of a guest. Mesa's driver `virpipe` connects to its
 * Unix socket, a connection for each program; for each it opens a session of graphics on the
 * host (gl.h), with a thread of its own.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/sockfile.h"
#include "gl/client.h"
#include "gl/environment.h"
#include "gl/probe.h"

#define EXIT_USAGE       64 /* of sysexits.h */
#define PAUSE_US         100000
#define STACK_BYTES      (256 << 10)
#define SOCKET           "/tmp/.virgl_test"

static void usage(FILE *f)
{
	fputs("usage: weft-guest-gl [OPTION]...\n"
	      "Has the host draw for programs of this guest. See weft-guest-gl(8).\n\n"
	      "      --socket PATH   listen here, if no service manager gives a socket\n"
	      "                      (" SOCKET ")\n"
	      "      --environment FILE\n"
	      "                      try whether the host draws, write what programs "
	      "need\n"
	      "                      for it to that file or remove the file, and end\n"
	      "  -h, --help\n"
	      "      --version\n",
	      f);
}

static void *serve_one(void *sock)
{
	client_serve((int)(intptr_t)sock);
	return NULL;
}

/* Returns 0, or -errno: the socket is the caller's still. */
static int start(int sock)
{
	pthread_attr_t attr;
	pthread_t t;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	r = -pthread_create(&t, &attr, serve_one, (void *)(intptr_t)sock);
	pthread_attr_destroy(&attr);
	return r;
}

static void serve(int fd)
{
	for (;;) {
		_cleanup_close_ int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

		if (client >= 0 && start(client) == 0)
			(void)fd_steal(&client);
		else if (client < 0 && errno != EINTR && errno != ECONNABORTED)
			usleep(PAUSE_US); /* descriptors or memory are short */
	}
}

/* Returns the exit status: whether the host draws. */
static int write_environment(const char *file)
{
	_cleanup_free_ char *why = NULL;
	struct probe p;
	int draws = probe(NULL, &p, &why);
	int r = environment_write(file, draws == 0);

	if (draws < 0)
		log_warning("the host does not draw: %s", why ? why : strerror(-draws));
	if (r < 0)
		log_error("%s: %s", file, strerror(-r));
	return draws < 0 || r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

struct options {
	const char *socket, *environment;
};

static struct options parse_options(int argc, char **argv)
{
	static const struct option longs[] = {
		{"socket", required_argument, NULL, 's'},
		{"environment", required_argument, NULL, 'e'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{},
	};
	struct options o = {.socket = SOCKET};
	int opt;

	while ((opt = getopt_long(argc, argv, "h", longs, NULL)) >= 0) {
		switch (opt) {
		case 's':
			o.socket = optarg;
			break;
		case 'e':
			o.environment = optarg;
			break;
		case 'h':
			usage(stdout);
			exit(EXIT_SUCCESS);
		case 'V':
			printf("weft-guest-gl %s\n", WEFT_VERSION);
			exit(EXIT_SUCCESS);
		default:
			usage(stderr);
			exit(EXIT_USAGE);
		}
	}
	if (optind != argc) {
		usage(stderr);
		exit(EXIT_USAGE);
	}
	return o;
}

int main(int argc, char **argv)
{
	struct options o = parse_options(argc, argv);
	int fd;

	log_set_program("weft-guest-gl");
	signal(SIGPIPE, SIG_IGN);
	if (o.environment)
		return write_environment(o.environment);
	fd = sockfile_given();
	if (fd < 0)
		fd = sockfile_listen(o.socket);
	if (fd < 0) {
		log_error("%s: %s", o.socket, sockfile_error(fd));
		return EXIT_FAILURE;
	}
	serve(fd);
}
