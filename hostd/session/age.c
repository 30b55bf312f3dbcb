/* SPDX-License-Identifier: Apache-2.0 */
/* Guests of another age than this host: who they are, and what is not known of them. */
#include <stdio.h>
#include <string.h>

#include "codec.h"
#include "feature.h"
#include "release.h"
#include "session/command.h"

/* Text of a guest's that ends up on an operator's terminal. */
static void copy_clean(char *to, const char *from, unsigned size)
{
	unsigned i;

	for (i = 0; i < size - 1 && from[i]; i++)
		to[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
	to[i] = '\0';
}

void sess_met(struct sess_lane *sl, const char *version, uint64_t features)
{
	struct session *s = sl->s;
	char clean[RELEASE_TEXT] = "";

	copy_clean(clean, version, sizeof(clean));
	pthread_mutex_lock(&s->lanes_lock);
	memcpy(s->library, clean, sizeof(clean));
	pthread_mutex_unlock(&s->lanes_lock);
	atomic_store_explicit(&s->mute, !(features & GUEST_FEATURE_OUTPUT),
			      memory_order_relaxed);
}

static void library_of(struct session *s, char ret[RELEASE_TEXT])
{
	pthread_mutex_lock(&s->lanes_lock);
	memcpy(ret, s->library, RELEASE_TEXT);
	pthread_mutex_unlock(&s->lanes_lock);
	if (!ret[0])
		snprintf(ret, RELEASE_TEXT, "?");
}

void sess_warn_age(struct sess_lane *sl, const char *what)
{
	char library[RELEASE_TEXT], clean[REFUSAL_TEXT];

	library_of(sl->s, library);
	copy_clean(clean, what, sizeof(clean));
	sess_warn(sl, "a guest wants what is not here: %s: upgrade %s", clean,
		  release_compare(library, WEFT_VERSION) < 0
			  ? "libcuda.so.1 and libnvidia-ml.so.1 there"
			  : "Weft on the host");
}

int sess_unknown(struct sess_lane *sl)
{
	struct wire_result res = {.result = CUDA_ERROR_NOT_SUPPORTED};
	unsigned op = sl->msg->hdr.op;
	char library[RELEASE_TEXT], what[REFUSAL_TEXT];

	library_of(sl->s, library);
	if (op < WIRE_NUM_OPS && codec_shapes[op].known)
		snprintf(what, sizeof(what), "field of %.19s: library %.8s, host %s",
			 codec_name((uint16_t)op), library, WEFT_VERSION);
	else
		snprintf(what, sizeof(what), "operation %u: library %.8s, host %s", op,
			 library, WEFT_VERSION);
	sess_refuse(sl->s, REFUSAL_VERSION, what, 0);
	sess_warn_age(sl, what);
	sl->uncounted = true;
	return sess_done(sl, &res, sizeof(res));
}
