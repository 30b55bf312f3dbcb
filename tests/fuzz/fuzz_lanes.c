/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest with three lanes whose threads run at once (fuzz_session.h), while memory
 * moves. Which command meets which other differs from run to run: what is found may need
 * some tries to be found again. Under TSan, too (README.md).
 */
#include <pthread.h>
#include <stdlib.h>

#include "fuzz_session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct player {
	struct fuzz_session *f;
	unsigned lane;
	const uint8_t *data;
	size_t size;
	pthread_t thread;
};

static void *play(void *arg)
{
	struct player *p = arg;

	fuzz_session_play(p->f, p->lane, p->data, p->size);
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct player p[FUZZ_LANES];
	struct fuzz_session f;

	fuzz_session_open(&f, FUZZ_LANES,
			  size & 1 ? WIRE_CARRIER_WINDOW : WIRE_CARRIER_STREAM);
	for (unsigned i = 0; i < FUZZ_LANES; i++) {
		p[i] = (struct player){&f, i, data, size};
		if (pthread_create(&p[i].thread, NULL, play, &p[i]))
			abort();
	}
	for (unsigned i = 0; i < FUZZ_LANES; i++)
		pthread_join(p[i].thread, NULL);
	fuzz_session_close(&f);
	return 0;
}
