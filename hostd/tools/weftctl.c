/* SPDX-License-Identifier: Apache-2.0 */
/* weftctl: the command line; ctl/ has the commands. */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "tools/ctl/ctl.h"

#define EXIT_USAGE 64 /* of sysexits.h */

/* A command line: its words after the options, of which the first is the command. */
struct command {
	const char *name, *args, *words;
	int least, most;     /* arguments; most -1: any number */
	const char *options; /* letters of those that not every command has */
	int (*run)(const struct ctl *ctl, int argc, char **argv);
};

static const struct command commands[] = {
	{"list", "[tenants | sessions | ended]", "tenants and running sessions", 0, 1,
	 "F", ctl_list},
	{"info", "[TENANT | SESSION]", "the same in detail, and ended sessions", 0, 1, "",
	 ctl_info},
	{"top", "[tenants | sessions]", "the same, live", 0, 1, "1sdF", ctl_top},
	{"events", "[TENANT]", "what happened, and what happens", 0, 1, "faF",
	 ctl_events},
	{"trace", "[TENANT]...", "record what happens, for ui.perfetto.dev", 0, -1, "otm",
	 ctl_trace},
	{"kill", "TENANT | SESSION", "end sessions at once", 1, 1, "", ctl_kill},
	{"drain", "[TENANT]", "let no session begin, of a tenant or at all", 0, 1, "wu",
	 ctl_drain},
	{"add", "TENANT [KEY=VALUE]...", "add a tenant (keys of weftd.conf)", 1, -1, "",
	 ctl_add},
	{"remove", "TENANT", "end its sessions and forget it", 1, 1, "", ctl_remove},
	{"get", "TENANT [KEY]", "its limits and what it uses", 1, 2, "F", ctl_get},
	{"set", "TENANT KEY=VALUE...", "change its limits", 2, -1, "", ctl_set},
	{"reclaim", "TENANT SIZE", "move so much of its memory to the host", 2, 2, "",
	 ctl_reclaim},
	{"doctor", "", "what is wrong with this host, and what to type", 0, 0, "",
	 ctl_doctor},
	{"domain-xml", "NAME | --apply", "what a libvirt domain needs", 0, -1, "pu",
	 ctl_domain_xml},
	{"shutdown", "", "end weftd and all sessions, and wait for that", 0, 0, "",
	 ctl_shutdown},
};

static void usage(void)
{
	puts("usage: weftctl [OPTION]... COMMAND [ARGUMENT]...\n"
	     "Sees and controls what runs under weftd. See weftctl(1).\n");
	for (unsigned i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  %-10s %-29s %s\n", commands[i].name, commands[i].args,
		       commands[i].words);
	puts("\n"
	     "  -c, --control PATH   the daemon with this control socket\n"
	     "  -j, --json           the daemon's answer, or {\"ok\": false, \"error\": "
	     "...}\n"
	     "      --format csv|json|table  csv: list, top, events and get; json: "
	     "--json\n"
	     "  -b, --bytes          sizes in bytes, not as 1.5 GiB\n"
	     "  -s, --sort KEY       top: by name, gpu, time, memory, swap, waiting, "
	     "sessions\n"
	     "  -d, --delay SECONDS  top: between two pictures\n"
	     "      --once           top: one picture\n"
	     "  -f, --follow         events: go on with those that come\n"
	     "      --after N        events: those after this number\n"
	     "  -o, --output FILE    trace: there; - is standard output\n"
	     "      --seconds N      trace: for so long, not until Ctrl-C\n"
	     "      --memory         trace: the memory that launches reach, too\n"
	     "  -w, --wait           drain: until no session runs\n"
	     "      --undo           drain: let sessions begin again; domain-xml: take "
	     "out\n"
	     "                       of the domain on standard input what is Weft's\n"
	     "      --apply          domain-xml: change the domain on standard input\n"
	     "  -h, --help\n"
	     "      --version");
}

static int wrong(const char *fmt, ...)
{
	va_list ap;

	fputs("weftctl: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs("; weftctl --help has all commands\n", stderr);
	return EXIT_USAGE;
}

/* clang-format off */
/* Options, one a line. */
static const struct option longs[] = {
	{"control", required_argument, NULL, 'c'},
	{"json", no_argument, NULL, 'j'},
	{"bytes", no_argument, NULL, 'b'},
	{"format", required_argument, NULL, 'F'},
	{"follow", no_argument, NULL, 'f'},
	{"after", required_argument, NULL, 'a'},
	{"once", no_argument, NULL, '1'},
	{"sort", required_argument, NULL, 's'},
	{"delay", required_argument, NULL, 'd'},
	{"output", required_argument, NULL, 'o'},
	{"seconds", required_argument, NULL, 't'},
	{"memory", no_argument, NULL, 'm'},
	{"wait", no_argument, NULL, 'w'},
	{"undo", no_argument, NULL, 'u'},
	{"apply", no_argument, NULL, 'p'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{},
};
/* clang-format on */

static const char *option_name(int letter)
{
	unsigned i = 0;

	while (longs[i].val != letter)
		i++;
	return longs[i].name;
}

static const struct command *find_command(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(commands); i++) {
		if (!strcmp(name, commands[i].name))
			return &commands[i];
	}
	return NULL;
}

static int run(const struct ctl *ctl, const char *given, int argc, char **argv)
{
	const struct command *cmd;
	int r = CTL_USAGE;

	if (!argc)
		return wrong("no command");
	cmd = find_command(*argv);
	if (!cmd)
		return wrong("unknown command \"%s\"", *argv);
	given += strspn(given, cmd->options);
	if (*given)
		return wrong("%s has no option --%s", cmd->name, option_name(*given));
	if (argc - 1 >= cmd->least && (cmd->most < 0 || argc - 1 <= cmd->most))
		r = cmd->run(ctl, argc, argv);
	if (r == CTL_USAGE)
		return wrong("%s takes %s", cmd->name,
			     *cmd->args ? cmd->args : "no arguments");
	return r;
}

static bool is_number(const char *text)
{
	return *text && strlen(text) < 20 && !text[strspn(text, "0123456789")];
}

/* The last one of them and --json holds. */
static bool read_format(struct ctl *ctl, const char *text)
{
	ctl->csv = !strcmp(text, "csv");
	ctl->json = !strcmp(text, "json");
	return ctl->csv || ctl->json || !strcmp(text, "table");
}

int main(int argc, char **argv)
{
	char given[ARRAY_SIZE(longs)] =
		""; /* of the options that not every command has */
	struct ctl ctl = {0};
	int opt;

	while ((opt = getopt_long(argc, argv, "c:jbfd:o:s:wh", longs, NULL)) >= 0) {
		switch (opt) {
		case 'c':
			ctl.control = optarg;
			continue;
		case 'j':
			ctl.json = true;
			ctl.csv = false;
			continue;
		case 'b':
			ctl.bytes = true;
			continue;
		case 'F':
			if (!read_format(&ctl, optarg))
				return wrong(
					"--format: \"%s\" is none of csv, json, table",
					optarg);
			if (!ctl.csv)
				continue; /* every command has those */
			break;
		case 'f':
			ctl.follow = true;
			break;
		case 'a':
			if (!is_number(optarg))
				return wrong("--after: \"%s\" is no number", optarg);
			ctl.after = optarg;
			break;
		case '1':
			ctl.once = true;
			break;
		case 'o':
			ctl.output = optarg;
			break;
		case 't':
			ctl.seconds = optarg;
			break;
		case 'm':
			ctl.memory = true;
			break;
		case 's':
			ctl.sort = optarg;
			break;
		case 'd':
			ctl.delay = optarg;
			break;
		case 'w':
			ctl.wait = true;
			break;
		case 'u':
			ctl.undo = true;
			break;
		case 'p':
			ctl.apply = true;
			break;
		case 'h':
			usage();
			return 0;
		case 'V':
			printf("weftctl %s\n", WEFT_VERSION);
			return 0;
		default:
			return EXIT_USAGE; /* getopt has said what */
		}
		if (!strchr(given, opt))
			given[strlen(given)] = (char)opt;
	}
	return run(&ctl, given, argc - optind, argv + optind);
}
