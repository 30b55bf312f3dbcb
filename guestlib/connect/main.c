/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weft-guest-connect: connects to weftd for programs that may not, such as those of
 * containers whose filter refuses vsock sockets. Each connection to its Unix socket gets
 * one answer, an errno and with 0 the socket that is connected, and is closed; what
 * clients send is not read. See address_connect().
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

#include "address.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/sockfile.h"
#include "wire.h"

#define EXIT_USAGE       64 /* of sysexits.h */
#define PAUSE_US         100000

static void usage(FILE *f)
{
	fputs("usage: weft-guest-connect [OPTION]...\n"
	      "Connects to the host for programs that may not use vsock. See\n"
	      "weft-guest-connect(8).\n\n"
	      "      --socket PATH   listen here, if no service manager gives a socket\n"
	      "                      (" ADDRESS_CONNECTOR ")\n"
	      "  -h, --help\n"
	      "      --version\n",
	      f);
}

/* Connects to weftd, by our own rights alone: who is refused here must not ask us. */
static int dial(void)
{
	struct sockaddr_vm host = {
		.svm_family = AF_VSOCK,
		.svm_cid = VMADDR_CID_HOST,
		.svm_port = WIRE_VSOCK_PORT,
	};
	_cleanup_close_ int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&host, sizeof(host)) < 0)
		return -errno;
	return fd_steal(&fd);
}

/* Gives a client its answer. Does not wait for it: there is room for one message. */
static void answer(int client)
{
	_cleanup_close_ int fd = dial();
	int32_t status = fd < 0 ? -fd : 0;

	(void)fd_send(client, &status, sizeof(status), &fd, fd >= 0);
}

static void serve(int fd)
{
	for (;;) {
		_cleanup_close_ int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

		if (client >= 0)
			answer(client);
		else if (errno != EINTR && errno != ECONNABORTED)
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
	const char *path = ADDRESS_CONNECTOR;
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
			printf("weft-guest-connect %s\n", WEFT_VERSION);
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
	int fd = sockfile_given();

	log_set_program("weft-guest-connect");
	signal(SIGPIPE, SIG_IGN);
	if (fd < 0)
		fd = sockfile_listen(path);
	if (fd < 0) {
		log_error("%s: %s", path, sockfile_error(fd));
		return EXIT_FAILURE;
	}
	serve(fd);
}
