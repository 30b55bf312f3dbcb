/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>

#include "base/clock.h"
#include "base/list.h"
#include "broker/broker.h"
#include "broker/operator/describe.h"
#include "broker/operator/gpu_time.h"
#include "broker/memory/account_host.h"
#include "broker/memory/ledger.h"
#include "broker/memory/swap.h"
#include "broker/reply.h"
#include "broker/request.h"
#include "broker/tenant.h"
#include "broker/workers.h"
#include "ipc/page.h"
#include "policies/time.h"
#include "util/conf.h"

#define NSEC_PER_US 1000u

struct json_object *describe_device(const struct broker *b)
{
	struct json_object *o = json_object_new_object();
	unsigned ready = 0;
	struct worker *w;

	list_for_each (w, &b->workers, link)
		ready += w->state == WORKER_READY;
	reply_str(o, "name", b->device_name);
	reply_u64(o, "memory.total", b->device_total);
	reply_u64(o, "memory.current", account_device(b));
	reply_u64(o, "memory.free", account_free(b));
	reply_u64(o, "memory.swap.current", swap_device(b));
	reply_limit(o, "memory.swap.max", b->swap);
	reply_u64(o, "host.current", b->host);
	reply_limit(o, "host.max", b->host_max);
	reply_u64(o, "sessions.current", b->n_sessions);
	reply_u64(o, "workers.ready", ready);
	reply_bool(o, "draining", b->draining);
	reply_str(o, "time.policy", b->time->name);
	reply_u64(o, "gpu.utilization", gpu_busy_device(b));
	reply_u64(o, "gpu.memory.utilization", gpu_memory_busy_device(b));
	reply_u64(o, "gpu.time", gpu_time_device(b));
	return o;
}

struct json_object *describe_tenant(struct tenant *t)
{
	struct json_object *o = json_object_new_object();

	reply_str(o, "name", t->name);
	reply_str(o, "socket", t->socket);
	if (t->window.path) {
		reply_str(o, "window.path", t->window.path);
		reply_u64(o, "window.size", t->window.size);
	}
	reply_bool(o, "draining", t->draining);
	keys_describe(t, o);
	return o;
}

struct json_object *describe_session(const struct worker *w)
{
	struct json_object *o = json_object_new_object();
	const struct worker_page *c = w->count;

	reply_u64(o, "session", w->session);
	reply_str(o, "tenant", w->tenant->name);
	reply_str(o, "vm.uuid", w->tenant->vm_uuid);
	reply_str(o, "name", w->hello.name);
	reply_u64(o, "pid", w->hello.pid);
	reply_u64(o, "worker.pid", (uint64_t)w->child.pid);
	reply_str(o, "carrier", w->carrier);
	reply_str(o, "kind", w->kind == WORKER_GRAPHICS ? "graphics" : "compute");
	reply_u64(o, "time", (clock_now_ns() - w->attached_ns) / NSEC_PER_US);
	reply_u64(o, "gpu.utilization", gpu_busy(w));
	reply_u64(o, "gpu.time", gpu_time(w));
	reply_u64(o, "calls", atomic_load(&c->calls) + atomic_load(&c->posts));
	reply_u64(o, "calls.answered", atomic_load(&c->calls));
	reply_u64(o, "launches", atomic_load(&c->launches));
	reply_u64(o, "copied.to_device", atomic_load(&c->bytes_to_device));
	reply_u64(o, "copied.from_device", atomic_load(&c->bytes_from_device));
	reply_u64(o, "memory.current", account_worker(w));
	reply_u64(o, "memory.swap.current", swap_worker(w));
	reply_u64(o, "memory.peak", w->peak);
	reply_u64(o, "memory.moved_out", atomic_load(&c->moved_out_bytes));
	reply_u64(o, "memory.unchanged", atomic_load(&c->unchanged_bytes));
	reply_u64(o, "memory.cold",
		  atomic_load(&c->cold_bytes) + atomic_load(&c->cold_out_bytes));
	reply_u64(o, "memory.missed", atomic_load(&c->missed_bytes));
	reply_u64(o, "memory.moved_in", atomic_load(&c->moved_in_bytes));
	reply_u64(o, "memory.waiting", w->n_waiters);
	reply_u64(o, "worker.memory.current", account_wmem(w));
	reply_u64(o, "lanes.current", atomic_load(&c->lanes));
	reply_u64(o, "compute.time", w->used_time_ns / NSEC_PER_US);
	reply_u64(o, "compute.stalled", w->stalled_ns / NSEC_PER_US);
	reply_str(o, "compute.class", conf_format_class(w->kind == WORKER_SHARED));
	reply_u64(o, "compute.slice", atomic_load(&c->slice_us));
	reply_u64(o, "compute.gather", w->gather_us);
	reply_u64(o, "kernels", atomic_load(&c->kernels));
	reply_u64(o, "kernels.rewritten", atomic_load(&c->kernels_rewritten));
	reply_u64(o, "launches.rewritten", atomic_load(&c->launches_rewritten));
	reply_u64(o, "kernel.blocks", atomic_load(&c->kernel_blocks));
	reply_u64(o, "kernel.limit", atomic_load(&c->kernel_limit));
	return o;
}

struct json_object *describe_record(const struct session_record *h)
{
	struct json_object *o = json_object_new_object();

	reply_u64(o, "session", h->session);
	reply_str(o, "tenant", h->tenant);
	reply_str(o, "name", h->name);
	reply_u64(o, "pid", h->pid);
	reply_u64(o, "time", h->duration_ns / NSEC_PER_US);
	reply_u64(o, "gpu.time", h->gpu_us);
	reply_u64(o, "calls", h->calls + h->posts);
	reply_u64(o, "calls.answered", h->calls);
	reply_u64(o, "launches", h->launches);
	reply_u64(o, "copied.to_device", h->to_device);
	reply_u64(o, "copied.from_device", h->from_device);
	reply_u64(o, "memory.peak", h->peak);
	reply_str(o, "end", h->end);
	return o;
}
