/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What weftctl makes of an answer: one of another version, or of somebody who is not
 * weftd. Input: one byte that says which request it answers, then the answer.
 */
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int weftctl_main(int argc, char **argv);

#define main weftctl_main
#include "tools/weftctl.c"
#undef main

#define ANSWER_MAX 65536

static const char *const commands[] = {
	"list", "info", "kill", "tenant-add", "tenant-get", "reclaim", "shutdown",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_object *a = NULL;
	struct client c;
	const char *cmd;
	int s[2], r;

	if (!size || size > ANSWER_MAX || socketpair(AF_UNIX, SOCK_STREAM, 0, s) < 0)
		return 0;
	if (!freopen("/dev/null", "w", stdout))
		abort();
	cmd = commands[data[0] % ARRAY_SIZE(commands)];
	if (write(s[1], data + 1, size - 1) != (ssize_t)size - 1)
		abort();
	shutdown(s[1], SHUT_WR);
	c.fd = s[0];
	c.tok = json_tokener_new();
	r = client_ask(&c, client_request(cmd), &a);
	if (r < 0)
		printf("%s\n", client_error(r, a));
	else
		print_answer(cmd, a, data[0] & 0x80);
	json_object_put(a);
	client_close(&c);
	close(s[1]);
	return 0;
}
