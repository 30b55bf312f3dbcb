/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "ptx/rewrite/flow.h"
#include "ptx/rewrite/loops.h"

#define NONE UINT32_MAX

/* Instructions that may come next after each. */
struct graph {
	uint32_t n;
	uint32_t *at; /* [n + 1] into next */
	uint32_t *next;
	uint32_t to; /* next ones that were noted */
};

static void graph_fini(struct graph *g)
{
	free(g->at);
	free(g->next);
}

static void count_next(void *arg, uint32_t next)
{
	((struct graph *)arg)->to++;
}

static void note_next(void *arg, uint32_t next)
{
	struct graph *g = arg;

	g->next[g->to++] = next;
}

static int graph_init(struct graph *g, const struct ptx_module *m,
		      const struct ptx_func *f)
{
	g->n = f->ninsns;
	g->at = calloc(g->n + 1, sizeof(*g->at));
	if (!g->at)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->n; i++) {
		g->at[i] = g->to;
		ptx_each_next(m, f, i, count_next, g);
	}
	g->at[g->n] = g->to;
	g->next = calloc(g->to + 1, sizeof(*g->next));
	if (!g->next)
		return -ENOMEM;
	g->to = 0;
	for (uint32_t i = 0; i < g->n; i++)
		ptx_each_next(m, f, i, note_next, g);
	return 0;
}

/* Tarjan's search, without recursion. */
struct search {
	const struct graph *g;
	const uint8_t *without; /* instructions that are as if not there; NULL: none */
	uint32_t *index, *low;  /* 0: not seen yet */
	uint32_t *edge;         /* the next one to follow */
	uint32_t *path, n_path; /* of the search in depth */
	uint32_t *open, n_open; /* seen, and not in a component yet */
	uint8_t *is_open;
	uint32_t last;
	void (*found)(void *arg, const uint32_t *insns, uint32_t n);
	void *arg;
};

static void search_fini(struct search *s)
{
	free(s->index); /* one allocation for all */
	free(s->is_open);
}

static int search_init(struct search *s, const struct graph *g)
{
	uint32_t *p = calloc(5 * ((size_t)g->n + 1), sizeof(*p));

	s->g = g;
	s->index = p;
	s->is_open = calloc(g->n + 1, 1);
	if (!p || !s->is_open)
		return -ENOMEM;
	s->low = p + g->n + 1;
	s->edge = p + 2 * ((size_t)g->n + 1);
	s->path = p + 3 * ((size_t)g->n + 1);
	s->open = p + 4 * ((size_t)g->n + 1);
	return 0;
}

static void see(struct search *s, uint32_t i)
{
	s->index[i] = s->low[i] = ++s->last;
	s->edge[i] = s->g->at[i];
	s->path[s->n_path++] = i;
	s->open[s->n_open++] = i;
	s->is_open[i] = 1;
}

/* All that is open from i on is a component, of which i was seen first. */
static void close_component(struct search *s, uint32_t i)
{
	uint32_t from = s->n_open;

	do {
		from--;
		s->is_open[s->open[from]] = 0;
	} while (s->open[from] != i);
	s->found(s->arg, s->open + from, s->n_open - from);
	s->n_open = from;
}

static void search_from(struct search *s, uint32_t start)
{
	see(s, start);
	while (s->n_path) {
		uint32_t i = s->path[s->n_path - 1], next;

		if (s->edge[i] == s->g->at[i + 1]) {
			s->n_path--;
			if (s->low[i] == s->index[i])
				close_component(s, i);
			if (s->n_path)
				s->low[s->path[s->n_path - 1]] =
					MIN(s->low[s->path[s->n_path - 1]], s->low[i]);
			continue;
		}
		next = s->g->next[s->edge[i]++];
		if (s->without && s->without[next])
			continue;
		if (!s->index[next])
			see(s, next);
		else if (s->is_open[next])
			s->low[i] = MIN(s->low[i], s->index[next]);
	}
}

static void search_all(struct search *s)
{
	for (uint32_t i = 0; i < s->g->n; i++) {
		if (!s->index[i] && !(s->without && s->without[i]))
			search_from(s, i);
	}
}

static bool goes_to_itself(const struct graph *g, uint32_t i)
{
	for (uint32_t e = g->at[i]; e < g->at[i + 1]; e++) {
		if (g->next[e] == i)
			return true;
	}
	return false;
}

struct finding {
	const struct graph *g;
	struct ptx_loops *ret;
	bool inner;
};

static void found(void *arg, const uint32_t *insns, uint32_t n)
{
	struct finding *f = arg;
	struct ptx_loops *ret = f->ret;

	if (n == 1 && !goes_to_itself(f->g, insns[0]))
		return;
	if (f->inner) {
		ret->loops[ret->of[insns[0]]].nests = true;
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		ret->of[insns[i]] = (int32_t)ret->n;
	ret->loops[ret->n++] = (struct ptx_loop){.head = NONE, .n = n};
}

/* A loop's instructions that come from outside of it: one is its head. */
static int find_heads(const struct graph *g, struct ptx_loops *l)
{
	_cleanup_free_ uint8_t *several = calloc(l->n + 1, 1);

	if (!several)
		return -ENOMEM;
	if (g->n && l->of[0] >= 0)
		l->loops[l->of[0]].head = 0;
	for (uint32_t i = 0; i < g->n; i++) {
		for (uint32_t e = g->at[i]; e < g->at[i + 1]; e++) {
			int32_t to = l->of[g->next[e]];

			if (to < 0 || to == l->of[i])
				continue;
			several[to] |= l->loops[to].head != NONE &&
				       l->loops[to].head != g->next[e];
			l->loops[to].head = g->next[e];
		}
	}
	for (uint32_t k = 0; k < l->n; k++) {
		if (several[k])
			l->loops[k].head = NONE;
	}
	return 0;
}

static int search(const struct graph *g, const uint8_t *without, struct finding *f)
{
	_cleanup_(search_fini) struct search s = {
		.without = without, .found = found, .arg = f};
	int r = search_init(&s, g);

	if (r == 0)
		search_all(&s);
	return r;
}

/* Without their heads, only what is nested in them goes round. */
static int find_nested(const struct graph *g, struct ptx_loops *l, struct finding *f)
{
	_cleanup_free_ uint8_t *without = calloc(g->n + 1, 1);

	if (!without)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->n; i++)
		without[i] = l->of[i] < 0 || l->loops[l->of[i]].head == i;
	f->inner = true;
	return search(g, without, f);
}

int ptx_loops(const struct ptx_module *m, const struct ptx_func *f, struct ptx_loops *ret)
{
	_cleanup_(graph_fini) struct graph g = {0};
	struct finding finding = {&g, ret, false};
	int r = graph_init(&g, m, f);

	*ret = (struct ptx_loops){0};
	if (r < 0)
		return r;
	ret->loops = calloc(g.n + 1, sizeof(*ret->loops));
	ret->of = malloc((g.n + 1) * sizeof(*ret->of));
	r = ret->loops && ret->of ? 0 : -ENOMEM;
	for (uint32_t i = 0; r == 0 && i < g.n; i++)
		ret->of[i] = -1;
	if (r == 0)
		r = search(&g, NULL, &finding);
	if (r == 0)
		r = find_heads(&g, ret);
	if (r == 0)
		r = find_nested(&g, ret, &finding);
	if (r < 0)
		ptx_loops_fini(ret);
	return r;
}

void ptx_loops_fini(struct ptx_loops *l)
{
	free(l->loops);
	free(l->of);
	*l = (struct ptx_loops){0};
}
