/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "calls.h"
#include "core/process.h"
#include "object/refuse.h"
#include "core/refused.h"

static struct refused_list list = {.lock = PTHREAD_MUTEX_INITIALIZER};

void guest_refuse_flush(void)
{
	char what[REFUSAL_TEXT];
	struct refused_cmd *cmd;
	struct lane_reply reply;
	struct guest_thread *t;
	enum refusal kind;
	uint64_t count;
	bool first;

	while (guest_enter(NEED_INIT, &t) == CUDA_SUCCESS &&
	       refused_next(&list, &kind, what, &count, &first)) {
		cmd = begin_refused(t);
		if (!cmd) {
			guest_lost(t);
			return;
		}
		cmd->kind = kind;
		cmd->count = count;
		memcpy(cmd->what, what, sizeof(cmd->what));
		/* A message in the ring when the process ends is lost; the first one of a
		 * kind must not be. */
		if (!first ? guest_post(t)
			   : guest_call(t, sizeof(struct refused_rep), &reply))
			return;
	}
}

void guest_refuse_note(enum refusal kind, const char *what)
{
	static_assert(REFUSE_RESULT == CUDA_ERROR_NOT_SUPPORTED, "one code");

	/* In a forked child the lock may be held for ever, and nobody is to be told. */
	if (process_get_state() == PROCESS_FORKED)
		return;
	log_debug("refused: %s", what);
	if (refused_count(&list, kind, what))
		guest_refuse_flush();
}

void guest_refuse_attribute(const char *function, int attribute)
{
	char what[REFUSAL_TEXT];

	snprintf(what, sizeof(what), "%s: attribute %d", function, attribute);
	guest_refuse_note(REFUSAL_ATTRIBUTE, what);
}
