/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that weftctl gets: one of another version, or of somebody who is not weftd.
 * Input: one byte that says which command asked, then the answer. */
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int weftctl_main(int argc, char **argv);

#define main weftctl_main
#include "tools/weftctl.c"
#undef main

#define ANSWER_MAX 65536

static const char *const asked[] = {
	"list",    "info",     "kill",   "add", "get",
	"reclaim", "shutdown", "events", "top", "trace",
};

static const uint8_t *answer;
static size_t answer_bytes;
static int peer;

/* In place of the tools' own: who answers has said everything already. */
int client_open(struct client *c, const char *path, char **ret_why)
{
	int s[2];

	*ret_why = NULL;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s) < 0)
		return -1;
	if (write(s[1], answer, answer_bytes) != (ssize_t)answer_bytes)
		abort();
	shutdown(s[1], SHUT_WR);
	c->fd = s[0];
	c->at = c->len = 0;
	c->tok = json_tokener_new();
	peer = s[1];
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char sessions[] = "sessions", words[3][2] = {"c", "t", "1"},
	     *argv[] = {words[0], words[1], words[2], NULL};
	const struct command *cmd;
	struct ctl ctl = {.output = "/dev/null"};
	int argc;

	if (!size || size > ANSWER_MAX)
		return 0;
	if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
		abort();
	cmd = find_command(asked[data[0] % ARRAY_SIZE(asked)]);
	ctl.bytes = data[0] & 0x40;
	ctl.csv = data[0] & 0x20;
	argc = 1 + (data[0] & 0x80 ? cmd->least : MAX(cmd->least, MIN(cmd->most, 2)));
	if (cmd->run == ctl_list || cmd->run == ctl_top) {
		argv[1] = sessions;
		argc = data[0] & 0x10 ? 2 : 1;
	}
	answer = data + 1;
	answer_bytes = size - 1;
	(void)cmd->run(&ctl, argc, argv);
	close(peer);
	return 0;
}
