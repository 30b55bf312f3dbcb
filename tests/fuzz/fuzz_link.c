/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest's link to a host that is not what it seems. Input:
 *
 *	byte 0	what comes with the welcome: a kind of descriptor (fds_any())
 *	byte 1	its size in MiB
 *	byte 2	bit 0: the rest lies in the window, where the first lane is; else it comes
 *		over the socket
 *	then a struct wire_welcome, which every lane gets, and the rest
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/un.h>

#include "base/log.h"
#include "base/macros.h"
#include "fds.h"
#include "link.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEAD    (3 + sizeof(struct wire_welcome))
#define LANES   3
#define REPLIES 20

static int listener = -1;
static char path[64], address[80];

struct host {
	const uint8_t *data;
	size_t size;
	int fd; /* of the window; -1: none */
};

static void unlink_path(void)
{
	unlink(path);
}

static void listen_once(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	snprintf(path, sizeof(path), "/tmp/weft-fuzz-%d.sock", (int)getpid());
	snprintf(address, sizeof(address), "unix:%s", path);
	strcpy(a.sun_path, path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(listener, LANES) < 0 || atexit(unlink_path))
		abort();
	log_set_level(LOG_LVL_NONE); /* a host that goes is what is wanted here */
}

/* Says all that it has to say at once, and no more: nobody waits for ever. */
static void *welcome_all(void *arg)
{
	struct host *h = arg;

	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		struct wire_hello hello;

		if (fd_read_full(fd, &hello, sizeof(hello)) < 0) {
			close(fd);
			return NULL; /* the last one */
		}
		(void)fd_send(fd, h->data + 3, sizeof(struct wire_welcome), &h->fd,
			      h->fd >= 0);
		if (!(h->data[2] & 1))
			(void)!send(fd, h->data + HEAD, h->size - HEAD,
				    MSG_DONTWAIT | MSG_NOSIGNAL);
		shutdown(fd, SHUT_WR);
		close(fd);
	}
}

static void fill_window(const struct host *h)
{
	struct wire_welcome w;

	memcpy(&w, h->data + 3, sizeof(w));
	if (h->data[2] & 1 && h->fd >= 0)
		(void)!pwrite(h->fd, h->data + HEAD, h->size - HEAD,
			      (off_t)w.lane_offset);
}

static volatile char sink;

static void use_lane(struct lane *l)
{
	struct lane_reply r;
	int e;

	if (!lane_begin(l, 1, 8, 0, NULL))
		return;
	e = lane_call(l, &r);
	for (unsigned i = 0; e == 0 && i < REPLIES; i++) {
		for (uint32_t k = 0; k < r.body_size; k++)
			sink += ((const char *)r.body)[k];
		for (uint32_t k = 0; k < r.payload_size; k += 64)
			sink += ((const char *)r.payload)[k];
		if (r.more)
			e = lane_next(l, &r);
		else if (!lane_begin(l, 1, 8, 0, NULL))
			return;
		else
			e = lane_call(l, &r);
	}
}

static void use(struct link *k)
{
	const struct wire_welcome *w = link_welcome(k);
	struct lane *l[LANES] = {NULL};

	for (unsigned i = 0; i < LANES && link_lane(k, &l[i]) == 0; i++)
		use_lane(l[i]);
	sink += (char)link_status(k)->sticky + link_carrier_name(k)[0];
	if (link_map(k, w->band_base, w->lane_offset, 4096) == 0)
		link_unmap(k, w->band_base, 4096);
	for (unsigned i = 0; i < LANES; i++)
		lane_free(l[i]);
}

static void end_host(pthread_t thread)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, path);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		abort();
	close(fd);
	pthread_join(thread, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct link_opts opts = {.address = address};
	struct host h = {data, size, -1};
	_cleanup_free_ char *why = NULL;
	pthread_t thread;
	struct link *k;
	unsigned before;

	if (size < HEAD)
		return 0;
	if (listener < 0)
		listen_once();
	before = fds_open();
	h.fd = fds_any(data[0], (size_t)data[1] << 20);
	fill_window(&h);
	if (pthread_create(&thread, NULL, welcome_all, &h))
		abort();
	if (link_connect(&opts, &k, &why) == 0) {
		use(k);
		link_free(k);
	}
	end_host(thread);
	closep(&h.fd);
	if (fds_open() != before)
		abort();
	return 0;
}
