/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/msg.h"
#include "policies/placement.h"
#include "util/size.h"
#include "worker/options.h"

/* How long a lane's thread polls before it sleeps. */
#define SPIN_US 50u
/* One socket per lane, the window, the control pair, standard streams, memory shared with
 * other sessions (twice SPACE_SHARES_MAX on the software GPU), and some room. */
#define FILES_MAX 10240

void options_usage(FILE *f)
{
	fputs("usage: weft-worker [OPTION]...\n"
	      "Serves one guest process. Started by weftd; see weft-worker(8).\n\n"
	      "  --device soft|cuda|auto\n"
	      "                        the software GPU, a real one, that if there is "
	      "one\n"
	      "  --memory SIZE         of the device, at most\n"
	      "  --tpcs N              size of the software device\n"
	      "  --threads N           host threads of its kernels\n"
	      "  --find-tpcs           say where they are, and how kernels are kept to "
	      "some\n"
	      "  --shared              run side by side with others that are shared\n"
	      "  --mps DIR             where the control daemon of MPS listens\n"
	      "  --runlist             share the software device's time, by descriptor "
	      "5\n"
	      "  --uuid HEX            its UUID, 32 digits\n"
	      "  --user NAME|UID:GID   whom to become\n"
	      "  --own-user            nobody else is that user\n"
	      "  --sandbox on|log|off  what is done about forbidden system calls\n"
	      "  --placement NAME      which memory moves first: lru, largest, random\n"
	      "  --piece SIZE          in what pieces it moves\n"
	      "  --turns               tenants take turns where memory does not fit\n"
	      "  --extents FILE        where kernels reach memory, as the operator says\n"
	      "  --spin-us N           how long to poll for a command before sleeping\n"
	      "  -h, --help\n",
	      f);
}

static int parse_uuid(const char *text, uint8_t *ret_uuid)
{
	if (strlen(text) != 32 || strspn(text, "0123456789abcdefABCDEF") != 32)
		return -EINVAL;
	for (size_t i = 0; i < 16; i++) {
		const char two[3] = {text[2 * i], text[2 * i + 1]};

		ret_uuid[i] = (uint8_t)strtoul(two, NULL, 16);
	}
	return 0;
}

static int parse_number(const char *text, unsigned *ret_n)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*end || end == text || n > 1u << 20)
		return -EINVAL;
	*ret_n = (unsigned)n;
	return 0;
}

static int parse_placement(const char *name, const struct placement **ret)
{
	*ret = placement_find(name);
	return *ret ? 0 : -EINVAL;
}

static int parse_option(int c, struct options *o)
{
	switch (c) {
	case 'h':
		options_usage(stdout);
		exit(0);
	case 'p':
		return parse_placement(optarg, &o->placement);
	case 'c':
		return size_parse(optarg, &o->piece_bytes);
	case 'd':
		o->device = optarg;
		return 0;
	case 't':
		return parse_number(optarg, &o->cfg.tpcs);
	case 'm':
		return size_parse(optarg, &o->cfg.memory_bytes);
	case 'j':
		return parse_number(optarg, &o->cfg.threads);
	case 'u':
		return parse_uuid(optarg, o->cfg.uuid);
	case 'U':
		o->sandbox.user = optarg;
		return 0;
	case 'o':
		o->sandbox.own_user = true;
		return 0;
	case 'S':
		return sandbox_mode_parse(optarg, &o->sandbox.mode);
	case 's':
		return parse_number(optarg, &o->spin_us);
	case 'T':
		o->turns = true;
		return 0;
	case 'e':
		o->extents = optarg;
		return 0;
	case 'f':
		o->find_tpcs = true;
		return 0;
	case 'a':
		o->cfg.shared = true;
		return 0;
	case 'M':
		o->cfg.mps = optarg;
		return 0;
	case 'r':
		o->cfg.runlist_fd = MSG_RUNLIST_FD;
		return 0;
	default:
		return -EINVAL;
	}
}

int options_parse(int argc, char **argv, struct options *ret)
{
	static const struct option longs[] = {
		{"help", no_argument, NULL, 'h'},
		{"device", required_argument, NULL, 'd'},
		{"tpcs", required_argument, NULL, 't'},
		{"memory", required_argument, NULL, 'm'},
		{"threads", required_argument, NULL, 'j'},
		{"uuid", required_argument, NULL, 'u'},
		{"user", required_argument, NULL, 'U'},
		{"placement", required_argument, NULL, 'p'},
		{"piece", required_argument, NULL, 'c'},
		{"turns", no_argument, NULL, 'T'},
		{"extents", required_argument, NULL, 'e'},
		{"own-user", no_argument, NULL, 'o'},
		{"sandbox", required_argument, NULL, 'S'},
		{"spin-us", required_argument, NULL, 's'},
		{"find-tpcs", no_argument, NULL, 'f'},
		{"shared", no_argument, NULL, 'a'},
		{"mps", required_argument, NULL, 'M'},
		{"runlist", no_argument, NULL, 'r'},
		{},
	};
	struct options o = {
		.device = "auto",
		.sandbox = {.files = FILES_MAX},
		.spin_us = SPIN_US,
	};
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) >= 0) {
		if (parse_option(c, &o) < 0)
			return -EINVAL;
	}
	if (optind != argc)
		return -EINVAL;
	*ret = o;
	return 0;
}
