/* SPDX-License-Identifier: Apache-2.0 */
/* Failures of commands: of contexts that are lost, and those that the next waiting call
 * tells, since their own command has no reply. */
#include <stdarg.h>
#include <stdio.h>

#include "codec.h"
#include "session/command.h"

/* Errors after which a context answers nothing else (cuda.h says so for each). */
static bool is_fatal(CUresult r)
{
	switch ((int)r) {
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED:
	case CUDA_ERROR_CONTAINED:
	case CUDA_ERROR_EXTERNAL_DEVICE:
	case CUDA_ERROR_TENSOR_MEMORY_LEAK:
	case CUDA_ERROR_MPS_CONNECTION_FAILED:
	case CUDA_ERROR_MPS_RPC_FAILURE:
	case CUDA_ERROR_MPS_CLIENT_TERMINATED:
		return true;
	default:
		return false;
	}
}

/* A context was lost: tells the guest's status line and, once, the log. */
static void note_fatal(struct sess_lane *sl, CUresult r)
{
	struct session *s = sl->s;
	uint32_t none = 0;
	char text[256] = "";

	if (!atomic_compare_exchange_strong(&s->sticky, &none, r))
		return;
	if (s->status)
		s->status->sticky = r;
	if (s->hooks.lost)
		s->hooks.lost(s->hooks.arg, (uint32_t)r);
	if (sl->ctx)
		s->ops->ctx.fault(sl->ctx->dev, text, sizeof(text));
	sess_warn(sl, "context lost with CUDA error %u%s%s", r, *text ? ": " : "", text);
}

void sess_defer(struct session *s, CUresult r)
{
	uint32_t none = 0;

	if (r == CUDA_SUCCESS || !atomic_compare_exchange_strong(&s->deferred, &none, r))
		return;
	if (s->status)
		s->status->deferred = r;
}

CUresult sess_sync_result(struct sess_lane *sl, CUresult r)
{
	struct session *s = sl->s;

	if (r != CUDA_SUCCESS ||
	    likely(!atomic_load_explicit(&s->deferred, memory_order_relaxed)))
		return r;
	r = atomic_exchange(&s->deferred, 0);
	sl->uncounted = true; /* the earlier command was counted */
	if (s->status)
		s->status->deferred = 0;
	return r;
}

void sess_note_failure(struct sess_lane *sl, uint16_t op, CUresult r)
{
	if (is_fatal(r))
		note_fatal(sl, r);
	if (r == CUDA_ERROR_NOT_SUPPORTED && !sl->uncounted)
		sess_refuse(sl->s, REFUSAL_DEVICE, codec_name(op), 0);
}

void sess_failed(struct sess_lane *sl, uint16_t op, CUresult r)
{
	if (likely(r == CUDA_SUCCESS))
		return;
	sess_note_failure(sl, op, r);
	sess_defer(sl->s, r);
}

void sess_warn(struct sess_lane *sl, const char *fmt, ...)
{
	struct session *s = sl->s;
	char text[400];
	va_list ap;
	bool ok;

	pthread_mutex_lock(&s->lanes_lock);
	ok = log_limit_ok(&s->log_limit, SESS_LOG_BURST);
	pthread_mutex_unlock(&s->lanes_lock);
	if (!ok)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_warning("tenant %s session %llu lane %u seq %llu: %s", s->tenant,
		    (unsigned long long)s->number, sl->index,
		    (unsigned long long)(sl->msg ? sl->msg->hdr.seq : 0), text);
}
