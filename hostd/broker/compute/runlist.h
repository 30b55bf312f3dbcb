/* SPDX-License-Identifier: Apache-2.0 */
/* The runlist of workers that share the software device (ipc/runlist.h). */
#ifndef WEFT_BROKER_RUNLIST_H
#define WEFT_BROKER_RUNLIST_H

struct broker;

/* Makes it, or takes over what weftd before had, unless the device is a real one: before the
 * first worker. Returns 0 or -errno. */
int runlist_open(struct broker *b);
void runlist_close(struct broker *b);

#endif
