/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "codec.h"
#include "core/known.h"
#include "refusal.h"
#include "release.h"

static char host[RELEASE_TEXT] = "?";

void known_introduce(struct session_open_cmd *cmd, uint64_t features)
{
	memset(cmd->library, 0, sizeof(cmd->library));
	snprintf((char *)cmd->library, sizeof(cmd->library), "%s", WEFT_VERSION);
	cmd->guest_features = features;
	cmd->api = WIRE_API_HASH;
}

bool known_differs(const struct session_open_rep *rep)
{
	static_assert(sizeof(rep->release) == sizeof(host), "one length");
	for (unsigned i = 0; i < RELEASE_TEXT - 1; i++)
		host[i] = rep->release[i] >= ' ' && rep->release[i] <= '~'
				  ? (char)rep->release[i]
				  : '\0';
	return rep->api != WIRE_API_HASH;
}

static bool all_known(const struct operations_reply *r)
{
	for (unsigned op = 0; op < WIRE_NUM_OPS; op++) {
		unsigned has = op < r->rep->known_count ? r->known[op] : 0;

		if (has < codec_shapes[op].known)
			return false;
	}
	return true;
}

int known_keep(struct link *k, const void *body, uint32_t size)
{
	struct operations_reply r;

	if (operations_reply_decode(body, size, &r) < 0)
		return -EPROTO;
	log_debug("Weft %s on the host, %s here: %s", host, WEFT_VERSION,
		  all_known(&r) ? "it knows all that is here" : "there is more here");
	return all_known(&r) ? 0 : link_learn(k, r.known, r.rep->known_count);
}

void known_missing(uint16_t op, char *ret_what)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;
	const char *who = release_compare(host, WEFT_VERSION) > 0
				  ? "libcuda.so.1 and libnvidia-ml.so.1 here"
				  : "Weft on the host";

	memset(ret_what, 0, REFUSAL_TEXT);
	snprintf(ret_what, REFUSAL_TEXT, "%.28s: library %.8s, host %.8s", codec_name(op),
		 WEFT_VERSION, host);
	if (!atomic_flag_test_and_set(&warned))
		log_warning("the program wants something (%s) that this library, version "
			    "%s, has and Weft %s on the host does not know: upgrade %s",
			    codec_name(op), WEFT_VERSION, host, who);
}
