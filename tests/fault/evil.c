/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In the place of weft-worker: one that was taken over. It is granted memory for its
 * session, takes it, and with WEFT_EVIL=credit then says that it is free again, or with
 * WEFT_EVIL=more takes more than that. With WEFT_EVIL=claims it claims more when weftd is
 * started again, with WEFT_EVIL=old it is of a version that no weftd knows any more. With
 * another value it says and does what is true.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "ipc/msg.h"
#include "ipc/page.h"

#define MIB     (1ull << 20)
#define GRANTED (400 * MIB)

static struct worker_page *count;

static void hear(struct msg *m)
{
	int fd0, fd1;

	if (msg_recv(MSG_FD, m, &fd0, &fd1) < 0)
		_exit(0);
}

static void wait_for(uint32_t type, struct msg *ret)
{
	do
		hear(ret);
	while (ret->type != type);
}

/* As the software device's memory. */
static void take(uint64_t bytes)
{
	int fd = fd_memfd("evil", bytes);
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd < 0 || p == MAP_FAILED)
		_exit(1);
	memset(p, 1, bytes);
}

int main(void)
{
	struct msg m = {.type = MSG_READY,
			.ready = {.memory_bytes = 1024 * MIB, .own_memory = 1}};
	const char *how = getenv("WEFT_EVIL");
	uint64_t session;

	count = mmap(NULL, WORKER_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
		     MSG_PAGE_FD, 0);
	if (count == MAP_FAILED || !how)
		return 1;
	m.ready.version = strcmp(how, "old") ? MSG_VERSION : 0;
	strcpy(m.ready.device, "evil GPU");
	if (msg_send(MSG_FD, &m, -1, -1) < 0)
		return 1;
	wait_for(MSG_ATTACH, &m);
	session = m.attach.session;
	m = (struct msg){.type = MSG_CHARGE, .id = 1, .charge.bytes = GRANTED};
	if (msg_send(MSG_FD, &m, -1, -1) < 0)
		return 1;
	wait_for(MSG_CHARGED, &m);
	if (m.charged.result)
		return 1;
	take(GRANTED);
	if (!strcmp(how, "credit"))
		atomic_store(&count->credit.taken, 0 - UINT64_MAX / 4);
	else if (!strcmp(how, "more"))
		take(GRANTED);
	for (;;) {
		wait_for(MSG_RESUME, &m);
		m.type = MSG_RESUMED;
		m.resumed = (struct msg_resumed){
			.session = session,
			.device = GRANTED + (strcmp(how, "claims") ? 0 : 64 * MIB)};
		(void)msg_send(MSG_FD, &m, -1, -1);
	}
}
