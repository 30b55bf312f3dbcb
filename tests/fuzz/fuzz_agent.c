/* SPDX-License-Identifier: Apache-2.0 */
/* Words of the host to a VM's agent. Nothing is started: a program is a number, and one
 * that is killed has ended. */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int agent_main(void);

static pid_t fake_fork(void);
static int fake_kill(pid_t pid, int sig);
static int fake_setpgid(pid_t pid, pid_t group);

#define main    agent_main
#define fork    fake_fork
#define kill    fake_kill
#define setpgid fake_setpgid
#include "../../vm-images/agent.c"
#undef main

#define INPUT_MAX 8192 /* so that no answer waits for a reader */

static struct agent agent;

static pid_t fake_fork(void)
{
	static pid_t last;

	last = last % 4096 + 1;
	return last % 7 ? last : -1;
}

static int fake_kill(pid_t pid, int sig)
{
	for (unsigned i = 0; i < MAX_JOBS; i++) {
		struct job *j = &agent.jobs[i];

		if (j->used && j->pid == -pid) {
			j->exited = true;
			j->status = sig;
		}
	}
	return 0;
}

static int fake_setpgid(pid_t pid, pid_t group)
{
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int s[2];

	if (size > INPUT_MAX || socketpair(AF_UNIX, SOCK_STREAM, 0, s) < 0)
		return 0;
	agent.sock = s[0];
	agent.sig_fd = -1;
	if (write(s[1], data, size) != (ssize_t)size)
		abort();
	shutdown(s[1], SHUT_WR);
	while (agent.sock >= 0 && step(&agent))
		;
	closep(&agent.sock);
	close(s[1]);
	for (unsigned i = 0; i < MAX_JOBS; i++) {
		for (unsigned k = 0; k < 2 && agent.jobs[i].pid; k++)
			closep(&agent.jobs[i].out[k]);
		agent.jobs[i] = (struct job){.out = {-1, -1}};
	}
	return 0;
}
