/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: the process-wide state, from cuInit() to exit
 *
 * One word, the gate, decides on the way in whether a call goes on; it is all that a call
 * that needs no message reads. It is opened by cuInit(), and closed for good by the first
 * of: the host is lost, this is a forked child, the process exits.
 *
 * Fork: the child inherits the parent's rings and sockets. It must never write to them,
 * so the handler closes the gate before any other code runs in the child, and gives up
 * descriptors and mappings without a word to the worker. A child that execs is a new
 * process and starts over. A fork before cuInit() costs nothing.
 *
 * Exit: cuInit() registers an exit handler that closes the gate. Handlers that were
 * registered later run before it and still find a working driver; those from before, the
 * CUDA runtime's among them, and destructors get CUDA_ERROR_DEINITIALIZED at once. So
 * does the driver, and so a kernel that never ends does not keep a process from exiting.
 * Nothing is torn down: other threads may still be inside a call, and the worker sees the
 * sockets close.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "graph/capture.h"
#include "object/context.h"
#include "core/device_visible.h"
#include "object/hostmem.h"
#include "core/process.h"
#include "object/refuse.h"
#include "core/session.h"
#include "core/thread.h"
#include "object/enter.h"

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

static _Thread_local bool forks_memory; /* of a session, which may begin meanwhile */

static void before_fork(void)
{
	enum process_state state = process_get_state();

	forks_memory = state != PROCESS_NEW && state != PROCESS_FORKED;
	if (forks_memory)
		hostmem_before_fork();
}

static void after_fork_parent(void)
{
	if (forks_memory)
		hostmem_after_fork_parent();
}

static void after_fork_child(void)
{
	enum process_state state = process_get_state();

	pthread_mutex_init(&init_lock, NULL); /* a thread of the parent may hold it */
	if (state != PROCESS_NEW)
		process_set_state(PROCESS_FORKED);
	if (forks_memory)
		hostmem_after_fork_child();
	thread_abandon();
	if (guest_process.link)
		link_abandon(guest_process.link);
	if (state == PROCESS_NEW) /* it was being made */
		guest_process.link = NULL;
}

static void at_exit(void)
{
	if (process_get_state() != PROCESS_FORKED)
		process_set_state(PROCESS_EXITING);
}

/* Prints the text of kernels, behind the program's own buffered text, which was first. */
static void print_output(const void *text, size_t size)
{
	const char *p = text;

	fflush(stdout);
	while (size) {
		ssize_t n = write(STDOUT_FILENO, p, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		p += n;
		size -= (size_t)n;
	}
}

static void set_log_program(void)
{
	static char name[64];

	snprintf(name, sizeof(name), "%s[weft libcuda]", program_invocation_short_name);
	log_set_program(name);
}

static CUresult connect_error(int error, const char *why)
{
	log_warning("no GPU: %s", why ? why : strerror(-error));
	switch (error) {
	case -ENOMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case -EPROTO:
	case -EPROTONOSUPPORT:
		return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	default:
		return CUDA_ERROR_NO_DEVICE;
	}
}

/* Warns of libraries that NVIDIA's tools have the driver load into a program. */
static void warn_tools(void)
{
	if (getenv("CUDA_INJECTION64_PATH"))
		log_warning(
			"CUDA_INJECTION64_PATH is ignored: profilers and debuggers do "
			"not work through Weft");
}

/* Learns what device there is. */
static CUresult open_session(void)
{
	struct guest_process *g = &guest_process;
	const struct wire_welcome *w = link_welcome(g->link);
	struct guest_thread *t = thread_get();
	unsigned n_devices = 0;
	CUresult r;

	if (!t)
		return CUDA_ERROR_OUT_OF_MEMORY;
	g->status = link_status(g->link);
	g->tickets = link_tickets(g->link);
	g->band_base = w->band_base;
	g->band_size = w->band_size;
	r = thread_open_lane(t);
	if (r)
		return r;
	r = session_open(t, &g->device, &n_devices);
	if (r)
		return r;
	g->host_base = g->device.host_base;
	g->host_size = g->device.host_size;
	if (n_devices)
		n_devices =
			device_visible(getenv("CUDA_VISIBLE_DEVICES"), g->device.uuid);
	g->n_devices = n_devices;
	return n_devices ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

/* Undoes the parts of a session that did not come about; no call has used it. */
static void close_session(void)
{
	struct guest_process *g = &guest_process;
	struct guest_thread *t = thread_get();

	if (t)
		lane_free(steal(t->lane));
	g->status = NULL;
	link_free(steal(g->link));
}

/* Many programs that start together wait for their workers: there is room for some of
 * them, and the others are told to try again. */
static int connect_patiently(const struct link_opts *opts, struct link **ret_link,
			     char **ret_why)
{
	uint64_t deadline = clock_now_ns() + PROCESS_WAIT_NS;
	unsigned ms = 20;
	int r;

	while ((r = link_connect(opts, ret_link, ret_why)) == -EAGAIN &&
	       clock_now_ns() < deadline) {
		free(steal(*ret_why));
		nanosleep(&(struct timespec){.tv_nsec = ms * NSEC_PER_MSEC}, NULL);
		ms = MIN(2 * ms, 320u);
	}
	return r;
}

static CUresult init_locked(void)
{
	static bool hooks_done;
	static const struct link_opts opts = {.output = print_output};
	struct guest_process *g = &guest_process;
	_cleanup_free_ char *why = NULL;
	CUresult result;
	int r;

	if (!hooks_done) {
		set_log_program();
		if (pthread_atfork(before_fork, after_fork_parent, after_fork_child) ||
		    atexit(at_exit))
			return CUDA_ERROR_OUT_OF_MEMORY;
		hooks_done = true;
	}
	r = connect_patiently(&opts, &g->link, &why);
	if (r < 0) {
		g->link = NULL;
		return connect_error(r, why);
	}
	log_debug("session %llu, %s", (unsigned long long)link_welcome(g->link)->session,
		  link_carrier_name(g->link));
	capture_init();
	result = ctx_init_primary() < 0 ? CUDA_ERROR_OUT_OF_MEMORY : open_session();
	if (result) {
		close_session();
		return result;
	}
	process_set_state(PROCESS_READY);
	process_warn_slow();
	warn_tools();
	guest_refuse_flush();
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuInit(unsigned int flags)
{
	CUresult r = CUDA_SUCCESS;

	if (process_get_state() != PROCESS_NEW) {
		r = guest_status();
		return r ? r : flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	}
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&init_lock);
	if (process_get_state() == PROCESS_NEW)
		r = init_locked();
	else
		r = guest_status();
	pthread_mutex_unlock(&init_lock);
	return r;
}

CUresult CUDAAPI cuDriverGetVersion(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = GUEST_DRIVER_VERSION;
	return CUDA_SUCCESS;
}
