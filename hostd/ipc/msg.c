/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/macros.h"
#include "ipc/msg.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

#define ERRNO_MAX 4095

/* ---- the form of each ---- */

static bool is_flag(uint32_t x)
{
	return x <= 1;
}

static bool is_result(int32_t x)
{
	return x <= 0 && x >= -ERRNO_MAX;
}

static bool is_text(const char *text, size_t size)
{
	return memchr(text, '\0', size);
}

static bool is_hello(const struct wire_hello *h)
{
	return is_text(h->name, sizeof(h->name));
}

static bool ready_ok(const struct msg *m)
{
	return is_flag(m->ready.own_memory) &&
	       is_text(m->ready.device, sizeof(m->ready.device));
}

static bool holders_list_ok(const struct msg *m)
{
	return m->holders_list.n <= MSG_HOLDERS_MAX && !m->holders_list.pad;
}

static bool attach_ok(const struct msg *m)
{
	return is_text(m->attach.tenant, sizeof(m->attach.tenant)) &&
	       is_hello(&m->attach.hello);
}

static bool opened_ok(const struct msg *m)
{
	return is_text(m->opened.carrier, sizeof(m->opened.carrier));
}

static bool lane_ok(const struct msg *m)
{
	return is_hello(&m->lane.hello);
}

static bool resumed_ok(const struct msg *m)
{
	return is_flag(m->resumed.can_move) && is_flag(m->resumed.at_gate);
}

static bool charge_ok(const struct msg *m)
{
	return is_flag(m->charge.allow_spill) && is_flag(m->charge.spare) &&
	       m->charge.spare <= m->charge.allow_spill;
}

static bool charged_ok(const struct msg *m)
{
	return is_result(m->charged.result) && !m->charged.pad;
}

static bool host_charged_ok(const struct msg *m)
{
	return is_result(m->host_charged.result) && !m->host_charged.pad;
}

static bool wmem_charged_ok(const struct msg *m)
{
	return is_result(m->wmem_charged.result) && !m->wmem_charged.pad;
}

static bool tenant_usage_ok(const struct msg *m)
{
	return is_result(m->tenant_usage.result) && !m->tenant_usage.pad;
}

static bool reclaim_ok(const struct msg *m)
{
	return is_flag(m->reclaim.swap) && is_flag(m->reclaim.only_copies) &&
	       is_flag(m->reclaim.urgent);
}

static bool moved_ok(const struct msg *m)
{
	return is_result(m->moved.result) && is_flag(m->moved.will_wait) &&
	       is_flag(m->moved.frozen) &&
	       (!m->moved.will_wait || m->moved.result == -EBUSY);
}

static bool quiesced_ok(const struct msg *m)
{
	return is_result(m->quiesced.result) && !m->quiesced.pad;
}

static bool resident_granted_ok(const struct msg *m)
{
	return is_result(m->resident_granted.result) && !m->resident_granted.pad;
}

static bool ipc_export_ok(const struct msg *m)
{
	return is_flag(m->ipc_export.evicted);
}

static bool ipc_exported_ok(const struct msg *m)
{
	return is_result(m->ipc_exported.result) && !m->ipc_exported.pad;
}

static bool ipc_opened_ok(const struct msg *m)
{
	return is_result(m->ipc_opened.result);
}

static bool hello_ok(const struct msg *m)
{
	return is_hello(&m->hello.hello);
}

static bool slice_ok(const struct msg *m)
{
	return m->slice.gather_us <= MSG_GATHER_MAX_US;
}

static bool pace_ok(const struct msg *m)
{
	return is_flag(m->pace.bound) && is_flag(m->pace.preempt);
}

static bool fill_ok(const struct msg *m)
{
	return is_flag(m->fill.on) && !m->fill.pad;
}

static bool tpc_map_ok(const struct msg *m)
{
	return m->tpc_map.n <= MSG_TPCS_MAX && !m->tpc_map.pad;
}

static bool tpcs_ok(const struct msg *m)
{
	return m->tpcs.n <= MSG_TPCS_MAX && m->tpcs.n_in_gpc <= m->tpcs.n;
}

static bool refuse_ok(const struct msg *m)
{
	return is_result(m->refuse.error) && !m->refuse.pad;
}

/* ---- the table ---- */

#define HEAD      offsetof(struct msg, ready)
#define BODY(of)  (HEAD + sizeof(((struct msg *)NULL)->of))
#define ANSWER(t) .answer = MSG_##t
#define FDS(n)    .fds = (n)

static const struct row {
	const char *name;
	size_t size;
	bool (*ok)(const struct msg *m); /* NULL: any numbers are */
	enum msg_type answer;            /* 0: none */
	unsigned fds;                    /* at most */
} rows[] = {
	[MSG_READY] = {"READY", BODY(ready), ready_ok},
	[MSG_HOLDERS] = {"HOLDERS", HEAD, ANSWER(HOLDERS_LIST)},
	[MSG_HOLDERS_LIST] = {"HOLDERS_LIST", BODY(holders_list), holders_list_ok,
			      FDS(1)},
	[MSG_ATTACH] = {"ATTACH", BODY(attach), attach_ok, FDS(2)},
	[MSG_OPENED] = {"OPENED", BODY(opened), opened_ok},
	[MSG_LANE] = {"LANE", BODY(lane), lane_ok, FDS(1)},
	[MSG_PROBE] = {"PROBE", HEAD, ANSWER(ALIVE)},
	[MSG_ALIVE] = {"ALIVE", HEAD},
	[MSG_ENDING] = {"ENDING", HEAD},
	[MSG_LOST] = {"LOST", HEAD},
	[MSG_RESUME] = {"RESUME", HEAD, ANSWER(RESUMED)},
	[MSG_HAS_HOST] = {"HAS_HOST", BODY(has_host)},
	[MSG_HAS_SHARE] = {"HAS_SHARE", BODY(ipc_export), ipc_export_ok, FDS(1)},
	[MSG_HAS_OPEN] = {"HAS_OPEN", BODY(has_open)},
	[MSG_RESUMED] = {"RESUMED", BODY(resumed), resumed_ok},

	[MSG_CHARGE] = {"CHARGE", BODY(charge), charge_ok, ANSWER(CHARGED)},
	[MSG_CHARGED] = {"CHARGED", BODY(charged), charged_ok},
	[MSG_HOST_CHARGE] = {"HOST_CHARGE", BODY(host_charge), ANSWER(HOST_CHARGED)},
	[MSG_HOST_CHARGED] = {"HOST_CHARGED", BODY(host_charged), host_charged_ok},
	[MSG_HOST_UNCHARGE] = {"HOST_UNCHARGE", BODY(host_uncharge)},
	[MSG_WMEM_CHARGE] = {"WMEM_CHARGE", BODY(wmem_charge), ANSWER(WMEM_CHARGED)},
	[MSG_WMEM_CHARGED] = {"WMEM_CHARGED", BODY(wmem_charged), wmem_charged_ok},
	[MSG_EVICTED_FREED] = {"EVICTED_FREED", BODY(evicted_freed)},
	[MSG_MEMORY] = {"MEMORY", HEAD, ANSWER(MEMORY_LEFT)},
	[MSG_MEMORY_LEFT] = {"MEMORY_LEFT", BODY(memory_left)},
	[MSG_TENANT] = {"TENANT", HEAD, ANSWER(TENANT_USAGE)},
	[MSG_TENANT_USAGE] = {"TENANT_USAGE", BODY(tenant_usage), tenant_usage_ok,
			      FDS(1)},

	[MSG_RECLAIM] = {"RECLAIM", BODY(reclaim), reclaim_ok, ANSWER(RECLAIMED)},
	[MSG_LEFT] = {"LEFT", BODY(left)},
	[MSG_RECLAIMED] = {"RECLAIMED", BODY(moved), moved_ok},
	[MSG_RESTORE] = {"RESTORE", BODY(restore), ANSWER(RESTORED)},
	[MSG_RESTORED] = {"RESTORED", BODY(moved), moved_ok},
	[MSG_QUIESCED] = {"QUIESCED", BODY(quiesced), quiesced_ok},
	[MSG_NEED] = {"NEED", BODY(need), ANSWER(NEED_GRANTED)},
	[MSG_NEED_GRANTED] = {"NEED_GRANTED", BODY(need_granted)},
	[MSG_MAKE_RESIDENT] = {"MAKE_RESIDENT", BODY(make_resident),
			       ANSWER(RESIDENT_GRANTED)},
	[MSG_RESIDENT_GRANTED] = {"RESIDENT_GRANTED", BODY(resident_granted),
				  resident_granted_ok},
	[MSG_PREALLOC] = {"PREALLOC", BODY(prealloc)},

	[MSG_IPC_EXPORT] = {"IPC_EXPORT", BODY(ipc_export), ipc_export_ok,
			    ANSWER(IPC_EXPORTED), FDS(1)},
	[MSG_IPC_EXPORTED] = {"IPC_EXPORTED", BODY(ipc_exported), ipc_exported_ok},
	[MSG_IPC_OPEN] = {"IPC_OPEN", BODY(ipc_open), ANSWER(IPC_OPENED)},
	[MSG_IPC_OPENED] = {"IPC_OPENED", BODY(ipc_opened), ipc_opened_ok, FDS(1)},
	[MSG_IPC_CLOSE] = {"IPC_CLOSE", BODY(ipc_close)},
	[MSG_IPC_DROP] = {"IPC_DROP", BODY(ipc_drop), ANSWER(IPC_DROPPED)},
	[MSG_IPC_DROPPED] = {"IPC_DROPPED", HEAD},

	[MSG_HELLO] = {"HELLO", BODY(hello), hello_ok},
	[MSG_GONE] = {"GONE", HEAD},
	[MSG_REFUSE] = {"REFUSE", BODY(refuse), refuse_ok},
	[MSG_DRAIN] = {"DRAIN", HEAD},
	[MSG_PASS] = {"PASS", HEAD, FDS(1)},
	[MSG_GUEST] = {"GUEST", HEAD, FDS(1)},
	[MSG_STRANGER] = {"STRANGER", HEAD},

	[MSG_COMPUTES] = {"COMPUTES", HEAD},
	[MSG_SLICE] = {"SLICE", BODY(slice), slice_ok},
	[MSG_TPC_MAP] = {"TPC_MAP", BODY(tpc_map), tpc_map_ok},
	[MSG_TPCS] = {"TPCS", BODY(tpcs), tpcs_ok},
	[MSG_PACE] = {"PACE", BODY(pace), pace_ok},
	[MSG_FILL] = {"FILL", BODY(fill), fill_ok},
};
static_assert(ARRAY_SIZE(rows) == MSG_NUM, "a row for each");

/* Returns a row that is all zero if there is no such message. */
static const struct row *row_of(uint32_t type)
{
	return &rows[type < ARRAY_SIZE(rows) ? type : 0];
}

const char *msg_name(uint32_t type)
{
	return row_of(type)->name ? row_of(type)->name : "?";
}

size_t msg_size(uint32_t type)
{
	return row_of(type)->size;
}

uint32_t msg_answer(uint32_t type)
{
	return row_of(type)->answer;
}

bool msg_is_valid(const struct msg *m)
{
	const struct row *row = row_of(m->type);

	return row->name && (!row->ok || row->ok(m));
}

/* ---- sending and receiving ---- */

int msg_send(int sock, const struct msg *m, int fd0, int fd1)
{
	int fds[2] = {fd0, fd1};
	size_t size = msg_size(m->type);

	return fd_send(sock, m, size, fds, fd0 < 0 ? 0 : fd1 < 0 ? 1 : 2);
}

/* Returns 0 if the n bytes that have come are a message, or -EPROTO. */
static int check(const struct msg *m, ssize_t n, const int *fds)
{
	unsigned n_fds = (fds[0] >= 0) + (fds[1] >= 0);

	if ((size_t)n >= HEAD && (size_t)n == msg_size(m->type) && msg_is_valid(m) &&
	    n_fds <= row_of(m->type)->fds)
		return 0;
	log_debug("message %s is malformed", (size_t)n < HEAD ? "?" : msg_name(m->type));
	return -EPROTO;
}

int msg_recv_with(int sock, struct msg *ret_m, int *ret_fd0, int *ret_fd1,
		  void (*drop)(int fd))
{
	struct {
		struct msg m;
		char more; /* than the longest */
	} in = {0};
	int fds[2] = {-1, -1}, r;
	ssize_t n = fd_recv_with(sock, &in, sizeof(in), fds, ARRAY_SIZE(fds), drop);

	if (n == 0)
		return -ENODATA;
	if (n < 0)
		return (int)n;
	r = check(&in.m, n, fds);
	if (r < 0) {
		for (unsigned i = 0; i < ARRAY_SIZE(fds); i++) {
			if (fds[i] >= 0)
				drop(fds[i]);
		}
		return r;
	}
	*ret_m = in.m;
	*ret_fd0 = fds[0];
	*ret_fd1 = fds[1];
	return 0;
}

int msg_recv(int sock, struct msg *ret_m, int *ret_fd0, int *ret_fd1)
{
	return msg_recv_with(sock, ret_m, ret_fd0, ret_fd1, fd_drop);
}

void msg_refuse_fds(int sock)
{
	int off = 0;

	/* A kernel that does not know it takes them, as ever. */
	(void)setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
}
