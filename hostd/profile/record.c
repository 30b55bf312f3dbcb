/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "profile/record.h"

#define FIRST_LINE "weft-launches 1"

/* CUDA's own limit is below. */
#define PARAMS_MAX (64u << 10)
/* As wide as virtual addresses become. */
#define ADDRESS_MAX (1ull << 57)

/* ---- reading ---- */

struct reader {
	struct kernels *all;
	struct kernel *kernel; /* of the last line that named one */
	struct launch launch;  /* of its last line, until the next one */
	bool has_launch;
};

static const char *after(const char *line, const char *word)
{
	size_t n = strlen(word);

	return strncmp(line, word, n) == 0 && line[n] == ' ' ? line + n + 1 : NULL;
}

/* Takes a number, and spaces behind it. */
static bool take(const char **at, int base, uint64_t *ret)
{
	char *end;

	if (!isxdigit((unsigned char)**at))
		return false;
	errno = 0;
	*ret = strtoull(*at, &end, base);
	if (errno || (*end && *end != ' '))
		return false;
	while (*end == ' ')
		end++;
	*at = end;
	return true;
}

static int spans_line(const char *at, struct spans *ret)
{
	uint64_t from, to, last = ret->n ? ret->v[ret->n - 1].to : 0;

	while (*at) {
		if (!take(&at, 16, &from) || !take(&at, 16, &to) || from >= to ||
		    from < last || to > ADDRESS_MAX)
			return -EINVAL;
		if (spans_add(ret, from, to) < 0)
			return -ENOMEM;
		last = to;
	}
	return 0;
}

static int digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

static int params(const char *at, struct launch *l)
{
	size_t n = strlen(at);
	unsigned char *p;

	if (strcmp(at, "-") == 0)
		n = 0;
	if (!*at || n % 2 || n / 2 > PARAMS_MAX || strspn(at, "0123456789abcdef") < n)
		return -EINVAL;
	p = malloc(n / 2 + 1);
	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < n / 2; i++)
		p[i] = (unsigned char)(digit(at[2 * i]) << 4 | digit(at[2 * i + 1]));
	l->params = p;
	l->size = n / 2;
	return 0;
}

/* The launch in hand goes to its kernel, if it has more to say. */
static void end_launch(struct reader *r)
{
	if (!r->has_launch)
		return;
	if (kernel_sees(r->kernel, &r->launch))
		kernel_keep(r->kernel, &r->launch);
	r->kernel->seen--;
	launch_free(&r->launch);
	r->has_launch = false;
}

static int kernel_line(struct reader *r, const char *at)
{
	struct ptx_code code = {{0}};
	uint64_t seen;

	end_launch(r);
	for (unsigned i = 0; i < 32; i++, at++) {
		if (!isxdigit((unsigned char)*at))
			return -EINVAL;
		code.hash[i / 16] = code.hash[i / 16] << 4 | (unsigned)digit(*at);
	}
	if (*at++ != ' ' || !take(&at, 10, &seen) || !kernels_can_name(at))
		return -EINVAL;
	r->kernel = kernels_get(r->all, &code, at);
	if (!r->kernel)
		return -ENOMEM;
	r->kernel->seen += seen;
	return 0;
}

static int launch_line(struct reader *r, const char *at)
{
	uint64_t n[6];

	end_launch(r);
	if (!r->kernel)
		return -EINVAL;
	for (unsigned i = 0; i < ARRAY_SIZE(n); i++) {
		if (!take(&at, 10, &n[i]) || n[i] > UINT32_MAX)
			return -EINVAL;
	}
	for (unsigned i = 0; i < 3; i++) {
		r->launch.shape.blocks[i] = (uint32_t)n[i];
		r->launch.shape.threads[i] = (uint32_t)n[i + 3];
	}
	r->has_launch = true;
	return params(at, &r->launch);
}

static int read_line(struct reader *r, const char *line, bool first)
{
	const char *at;

	if (first)
		return strcmp(line, FIRST_LINE) == 0 ? 0 : -EINVAL;
	if ((at = after(line, "kernel")))
		return kernel_line(r, at);
	if ((at = after(line, "launch")))
		return launch_line(r, at);
	if (r->has_launch && (at = after(line, "memory")))
		return spans_line(at, &r->launch.memory);
	if (r->has_launch && (at = after(line, "reached")))
		return spans_line(at, &r->launch.reached);
	return -EINVAL;
}

int record_read(FILE *f, struct kernels *k, unsigned *ret_line)
{
	struct reader r = {.all = k};
	_cleanup_free_ char *line = NULL;
	size_t room = 0;
	ssize_t n;
	int error = 0;

	*ret_line = 0;
	while (error == 0 && (n = getline(&line, &room, f)) > 0) {
		if (line[n - 1] == '\n')
			line[n - 1] = '\0';
		error = read_line(&r, line, !(*ret_line)++);
	}
	if (error == 0)
		end_launch(&r);
	launch_free(&r.launch);
	return error;
}

/* ---- writing ---- */

static void write_spans(FILE *f, const char *what, const struct spans *s)
{
	fprintf(f, "%s ", what);
	for (size_t i = 0; i < s->n; i++)
		fprintf(f, "%s%" PRIx64 " %" PRIx64, i ? " " : "", s->v[i].from,
			s->v[i].to);
	fprintf(f, "\n");
}

static void write_launch(FILE *f, const struct launch *l)
{
	fprintf(f, "launch %u %u %u %u %u %u ", l->shape.blocks[0], l->shape.blocks[1],
		l->shape.blocks[2], l->shape.threads[0], l->shape.threads[1],
		l->shape.threads[2]);
	for (size_t i = 0; i < l->size; i++)
		fprintf(f, "%02x", ((const unsigned char *)l->params)[i]);
	fprintf(f, "%s\n", l->size ? "" : "-");
	write_spans(f, "memory", &l->memory);
	write_spans(f, "reached", &l->reached);
}

void record_write(FILE *f, const struct kernels *k)
{
	fprintf(f, FIRST_LINE "\n");
	for (size_t i = 0; i < k->n; i++) {
		const struct kernel *one = k->v[i];

		if (!one->n)
			continue;
		fprintf(f, "kernel %016" PRIx64 "%016" PRIx64 " %" PRIu64 " %s\n",
			one->code.hash[0], one->code.hash[1], one->seen, one->name);
		for (unsigned j = 0; j < one->n; j++)
			write_launch(f, &one->launch[j]);
	}
}
