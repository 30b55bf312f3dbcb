/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that weftctl gets: one of another version, or of somebody who is not weftd.
 * Input: one byte that says which request it answers, then the answer. */
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
	"list", "info", "kill", "add", "get", "reclaim", "shutdown",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *argv[] = {NULL, (char *)"t", NULL, NULL};
	struct options o = {0};
	struct json_object *a = NULL;
	const struct command *cmd;
	struct client c;
	int s[2], r;

	if (!size || size > ANSWER_MAX || socketpair(AF_UNIX, SOCK_STREAM, 0, s) < 0)
		return 0;
	if (!freopen("/dev/null", "w", stdout))
		abort();
	cmd = find_command(asked[data[0] % ARRAY_SIZE(asked)]);
	o.human = data[0] & 0x40;
	o.bytes = !o.human;
	argv[2] = data[0] & 0x80 ? (char *)"k" : NULL;
	if (write(s[1], data + 1, size - 1) != (ssize_t)size - 1)
		abort();
	shutdown(s[1], SHUT_WR);
	c.fd = s[0];
	c.tok = json_tokener_new();
	r = client_ask(&c, client_request(cmd->name), &a);
	if (r < 0)
		printf("%s\n", client_error(r, a));
	else
		cmd->print(&o, argv, a);
	json_object_put(a);
	client_close(&c);
	close(s[1]);
	return 0;
}
