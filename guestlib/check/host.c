/* SPDX-License-Identifier: Apache-2.0 */
/* The way to the host, step by step: vsock device, window, session, calls. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

#include "address.h"
#include "bar.h"
#include "base/clock.h"
#include "base/fd.h"
#include "check/check.h"
#include "check/report.h"
#include "codec.h"
#include "link.h"

/* Calls that are timed, the first ones beside them. */
#define CALLS      200
#define WARM_CALLS 20

/* Asks the kernel for the number by which the host knows this VM. Returns whether it
 * tells; VMADDR_CID_ANY: there is no device. */
static bool local_cid(unsigned *ret_cid)
{
	_cleanup_close_ int fd = open("/dev/vsock", O_RDONLY | O_CLOEXEC);

	return fd >= 0 && ioctl(fd, IOCTL_VM_SOCKETS_GET_LOCAL_CID, ret_cid) == 0;
}

static void say_no_socket(int error)
{
	report(VERDICT_NO, "vsock device", "no vsock sockets: %s", strerror(error));
	if (error == EPERM || error == EACCES)
		report_advice("a filter of this container refuses them: run it with "
			      "--device nvidia.com/gpu=all, which brings the socket of "
			      "weft-guest-connect");
	else
		report_advice("modprobe vmw_vsock_virtio_transport");
}

/* Whether weft-guest-connect does what we may not, as error says. */
static bool connector_there(int error)
{
	return (error == EPERM || error == EACCES) &&
	       access(ADDRESS_CONNECTOR, F_OK) == 0;
}

bool check_vsock(void)
{
	_cleanup_close_ int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int error = fd < 0 ? errno : 0;
	unsigned cid;

	if (connector_there(error)) {
		report(VERDICT_OK, "vsock device", "by weft-guest-connect");
		return true;
	}
	if (error) {
		say_no_socket(error);
		return false;
	}
	/* Containers have no /dev/vsock, and do without. */
	if (!local_cid(&cid))
		return true;
	if (cid == VMADDR_CID_ANY) {
		report(VERDICT_NO, "vsock device", "this machine has none");
		report_advice(
			"modprobe vmw_vsock_virtio_transport; if that does not help, "
			"the VM was started without the device: the operator's "
			"guide has its lines");
		return false;
	}
	report(VERDICT_OK, "vsock device", "CID %u", cid);
	return true;
}

bool check_window(void)
{
	char why[BAR_WHY_MAX];
	struct bar bar = {0};

	if (bar_find(BAR_SYSFS, &bar, why) < 0) {
		report(VERDICT_SLOW, "window", "%s", why);
		return false;
	}
	report(VERDICT_OK, "window", "%llu MiB", (unsigned long long)bar.size >> 20);
	bar_fini(&bar);
	return true;
}

/* Tells of a host of another build; what one end lacks is refused when it is asked for. */
static void say_release(const struct session_open_rep *rep)
{
	if (rep->api != WIRE_API_HASH)
		report(VERDICT_OK, "release", "Weft %.*s on the host, %s here",
		       (int)strnlen((const char *)rep->release, sizeof(rep->release)),
		       (const char *)rep->release, WEFT_VERSION);
}

/* Opens the session. Returns whether the host has a device. */
static bool open_session(struct lane *l)
{
	struct session_open_cmd *cmd =
		lane_begin(l, WIRE_OP_session_open, sizeof(*cmd), 0, NULL);
	const struct session_open_rep *rep;
	struct lane_reply reply;

	if (cmd) {
		session_open_cmd_init(cmd);
		memset(cmd->library, 0, sizeof(cmd->library));
		snprintf((char *)cmd->library, sizeof(cmd->library), "%s", WEFT_VERSION);
		cmd->guest_features = 0;
		cmd->api = WIRE_API_HASH;
	}
	if (!cmd || lane_call(l, &reply) < 0 ||
	    reply.fixed < sizeof(struct wire_result)) {
		report(VERDICT_NO, "host", "hung up at the first command");
		return false;
	}
	lane_fit_reply(l, &reply, sizeof(*rep), NULL);
	rep = reply.body;
	if (rep->res.result) {
		report(VERDICT_NO, "host", "refuses the session: CUDA error %u",
		       rep->res.result);
		return false;
	}
	say_release(rep);
	if (!rep->device_count) {
		report(VERDICT_NO, "host", "has no GPU for this VM");
		return false;
	}
	return true;
}

/* Nanoseconds that one call takes; 0: it failed. */
static uint64_t one_call(struct lane *l)
{
	uint64_t start = clock_now_ns();
	struct device_status_cmd *cmd =
		lane_begin(l, WIRE_OP_device_status, sizeof(*cmd), 0, NULL);
	struct lane_reply reply;

	if (!cmd)
		return 0;
	device_status_cmd_init(cmd);
	if (lane_call(l, &reply) < 0)
		return 0;
	return clock_now_ns() - start;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Median of some calls, in ns; 0: the host hung up. */
static uint64_t time_calls(struct lane *l)
{
	uint64_t ns[CALLS];

	for (unsigned i = 0; i < WARM_CALLS; i++) {
		if (!one_call(l))
			return 0;
	}
	for (unsigned i = 0; i < CALLS; i++) {
		ns[i] = one_call(l);
		if (!ns[i])
			return 0;
	}
	qsort(ns, CALLS, sizeof(*ns), compare);
	return ns[CALLS / 2];
}

static bool use_lane(const char *address, const struct link *k, struct lane *l)
{
	const char *slow = link_slow(k);
	uint64_t ns;

	if (!open_session(l))
		return false;
	ns = time_calls(l);
	if (!ns) {
		report(VERDICT_NO, "host", "hung up");
		return false;
	}
	report(slow ? VERDICT_SLOW : VERDICT_OK, "host",
	       "%s over %s, %llu.%llu us a call", address, link_carrier_name(k),
	       (unsigned long long)ns / 1000, (unsigned long long)ns % 1000 / 100);
	if (slow)
		report_advice("no shared window: %s", slow);
	return true;
}

bool check_host(const char *address)
{
	const struct link_opts opts = {.address = address, .monitor = true};
	_cleanup_free_ char *why = NULL;
	struct lane *l = NULL;
	struct link *k;
	bool ok = false;

	if (link_connect(&opts, &k, &why) < 0) {
		report(VERDICT_NO, "host", "%s", why ? why : "out of memory");
		return false;
	}
	if (link_lane(k, &l) < 0)
		report(VERDICT_NO, "host", "%s: hung up", address);
	else
		ok = use_lane(address, k, l);
	lane_free(l);
	link_free(k);
	return ok;
}
