/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs and nodes that a program names, and the lock that all of them are under. */
#include <pthread.h>

#include "graph/graph.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void graph_lock(void)
{
	pthread_mutex_lock(&lock);
}

void graph_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

struct graph *graph_lookup(CUgraph g)
{
	return guest_object((uintptr_t)g, HANDLE_GRAPH);
}

struct graph_node *graph_node_lookup(CUgraphNode n)
{
	return guest_object((uintptr_t)n, HANDLE_GRAPH_NODE);
}
