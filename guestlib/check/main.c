/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weft-guest-check: says whether programs of this machine have a GPU, over which carrier,
 * and if not, why. The stages are in check.h; one that fails spares those that need it.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

#include "base/log.h"
#include "check/check.h"
#include "check/report.h"
#include "wire.h"

#define EXIT_USAGE   64 /* of sysexits.h */
#define LOCAL_SOCKET "/run/weft/weft.sock"

static void usage(FILE *f)
{
	fputs("usage: weft-guest-check [OPTION]...\n"
	      "Says whether programs here can use a GPU by Weft, and if not, why. See\n"
	      "weft-guest-check(1).\n\n"
	      "      --host ADDRESS   look there: unix:PATH or vsock:CID:PORT\n"
	      "  -h, --help\n"
	      "      --version\n\n"
	      "Exit status: 0 all is well, 1 no GPU, 2 a GPU that is slow to reach.\n",
	      f);
}

/* Where a program would look first; sets *ret_vsock if that is through the VM's device. */
static const char *choose_address(const char *given, bool *ret_vsock)
{
	static char vsock[32];
	const char *env = getenv("WEFT_HOST");

	snprintf(vsock, sizeof(vsock), "vsock:%u:%u", VMADDR_CID_HOST, WIRE_VSOCK_PORT);
	if (!given && env && *env)
		given = env;
	if (!given)
		given = access(LOCAL_SOCKET, F_OK) == 0 ? "unix:" LOCAL_SOCKET : vsock;
	*ret_vsock = strncmp(given, "vsock:", 6) == 0;
	return given;
}

static const char *parse_options(int argc, char **argv)
{
	static const struct option longs[] = {
		{"host", required_argument, NULL, 'H'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{},
	};
	const char *host = NULL;
	int opt;

	while ((opt = getopt_long(argc, argv, "h", longs, NULL)) >= 0) {
		switch (opt) {
		case 'H':
			host = optarg;
			break;
		case 'h':
			usage(stdout);
			exit(EXIT_SUCCESS);
		case 'V':
			printf("weft-guest-check %s\n", WEFT_VERSION);
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
	return host;
}

int main(int argc, char **argv)
{
	static const char *const verdicts[] = {
		[VERDICT_OK] = "Programs here have a GPU.",
		[VERDICT_NO] = "Programs here have no GPU.",
		[VERDICT_SLOW] = "Programs here have a GPU, which is slow to reach.",
	};
	const char *address = parse_options(argc, argv);
	bool vsock, lib, host;

	log_set_program("weft-guest-check");
	/* The libraries' words would be said twice. */
	setenv("WEFT_LOG", "error", 0);
	address = choose_address(address, &vsock);
	setenv("WEFT_HOST", address, 1);
	lib = check_libraries();
	host = !vsock || check_vsock();
	if (vsock)
		(void)check_window();
	host = host && check_host(address);
	if (lib && host)
		check_gpu();
	if (host)
		check_graphics(address);
	printf("\n%s\n", verdicts[report_verdict()]);
	return (int)report_verdict();
}
