/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the numbers come from: one connection to weftd's control socket, made again when
 * weftd has been restarted. One thread.
 */
#ifndef WEFT_EXPORTER_SOURCE_H
#define WEFT_EXPORTER_SOURCE_H

#include <stdbool.h>

#include "exporter/page.h"
#include "tools/client.h"

struct source {
	const char *control;   /* path of the socket */
	unsigned sessions_max; /* shown */
	struct client client;
	bool open;
	bool missing; /* weftd could not be asked last time, which was said */
};

/*
 * Asks weftd for everything. Returns 0 or -errno: then *ret says that weftd is not there.
 * Waits for weftd, some seconds at most. answers_fini() in either case.
 */
int source_ask(struct source *s, struct answers *ret);
void answers_fini(struct answers *a);
void source_fini(struct source *s);

#endif
