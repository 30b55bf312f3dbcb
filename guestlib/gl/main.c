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
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/sockfile.h"
#include "gl/client.h"

#define EXIT_USAGE       64 /* of sysexits.h */
#define LISTEN_FDS_FIRST 3  /* of sd_listen_fds(3) */
#define BACKLOG          128
#define PAUSE_US         100000
#define STACK_BYTES      (256 << 10)
#define SOCKET           "/tmp/.virgl_test"

static void usage(FILE *f)
{
	fputs("usage: weft-guest-gl [OPTION]...\n"
	      "Has the host draw for programs of this guest. See weft-guest-gl(8).\n\n"
	      "      --socket PATH   listen here, if no service manager gives a socket\n"
	      "                      (" SOCKET ")\n"
	      "  -h, --help\n"
	      "      --version\n",
	      f);
}

/* Returns the socket that the service manager listens on, or -1. */
static int given_socket(void)
{
	const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");

	if (!pid || !n || atol(pid) != (long)getpid() || strcmp(n, "1") != 0)
		return -1;
	return LISTEN_FDS_FIRST;
}

static int listen_at(const char *path)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un sa;
	int r = fd < 0 ? -errno : sockfile_address(path, &sa);

	if (r == 0)
		r = sockfile_clear(path, false);
	if (r == -ENOENT)
		r = 0;
	if (r == 0 &&
	    (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, BACKLOG) < 0))
		r = -errno;
	return r < 0 ? r : fd_steal(&fd);
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

static const char *parse_options(int argc, char **argv)
{
	static const struct option longs[] = {
		{"socket", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{},
	};
	const char *path = SOCKET;
	int opt;

	while ((opt = getopt_long(argc, argv, "h", longs, NULL)) >= 0) {
		switch (opt) {
		case 's':
			path = optarg;
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
	return path;
}

int main(int argc, char **argv)
{
	const char *path = parse_options(argc, argv);
	int fd = given_socket();

	log_set_program("weft-guest-gl");
	signal(SIGPIPE, SIG_IGN);
	if (fd < 0)
		fd = listen_at(path);
	if (fd < 0) {
		log_error("%s: %s", path, sockfile_error(fd));
		return EXIT_FAILURE;
	}
	serve(fd);
}
