/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/macros.h"
#include "ptx/extent/node.h"
#include "ptx/extent/template.h"

#define TEMPLATES_MAX 4096u
#define DEPTH_MAX     32u         /* of brackets and functions in one another */
#define BYTES_MAX     (1ll << 40) /* of an access */
#define OFFSET_MAX    4096        /* of a parameter */
#define EACH_SYMS     256u        /* behind those of special registers */

struct entry {
	struct ptx_code code;
	bool any;
	char *kernel;
	struct ptx_extent extent;
};

struct ptx_templates {
	unsigned n;
	struct entry *t;
};

/* A text that is read, and the kernel in hand, whose nodes and accesses are not its own yet. */
struct reader {
	const char *at, *end; /* of the line */
	struct ptx_templates *all;
	struct entry *t; /* NULL: no kernel yet */
	struct node nodes[NODES_MAX];
	struct access accesses[ACCESSES_MAX];
	uint64_t words; /* in the address in hand */
	unsigned depth, n_each;
	struct ptx_code code;
	bool has_code, any;
	const char *why; /* the first mistake */
};

struct ptx_code ptx_code_of(const void *image, size_t size)
{
	XXH128_hash_t h = XXH3_128bits(image, size);

	return (struct ptx_code){{h.high64, h.low64}};
}

/* ---- words ---- */

static void wrong(struct reader *r, const char *why)
{
	if (!r->why)
		r->why = why;
}

static void skip_space(struct reader *r)
{
	while (r->at < r->end && (*r->at == ' ' || *r->at == '\t'))
		r->at++;
}

static bool is_at_end(struct reader *r)
{
	skip_space(r);
	return r->at == r->end;
}

/* Takes `text` if it comes next; a word only if it ends there. */
static bool take(struct reader *r, const char *text)
{
	size_t n = strlen(text);

	skip_space(r);
	if ((size_t)(r->end - r->at) < n || memcmp(r->at, text, n) != 0)
		return false;
	if (isalnum((unsigned char)text[n - 1]) && r->at + n < r->end &&
	    (isalnum((unsigned char)r->at[n]) || r->at[n] == '_'))
		return false;
	r->at += n;
	return true;
}

static void want(struct reader *r, const char *text, const char *why)
{
	if (!take(r, text))
		wrong(r, why);
}

/* Takes a number, decimal or hexadecimal; 0 where there is none, which is a mistake. */
static int64_t number(struct reader *r)
{
	char digits[24], *end;
	size_t n = 0;
	long long v;

	skip_space(r);
	while (r->at + n < r->end && isalnum((unsigned char)r->at[n]))
		n++;
	if (!n || n >= sizeof(digits) || !isdigit((unsigned char)*r->at)) {
		wrong(r, "expected a number");
		return 0;
	}
	memcpy(digits, r->at, n);
	digits[n] = '\0';
	errno = 0;
	v = strtoll(digits, &end, digits[1] == 'x' ? 16 : 10);
	if (*end || errno)
		wrong(r, "is no number");
	r->at += n;
	return v;
}

/* ---- nodes ---- */

static uint32_t add_node(struct reader *r, struct node n)
{
	struct ptx_extent *e = &r->t->extent;

	if (e->n_nodes == NODES_MAX) {
		wrong(r, "the kernel's addresses are too long");
		return 0;
	}
	r->nodes[e->n_nodes] = n;
	return e->n_nodes++;
}

static uint32_t add_op(struct reader *r, enum node_op op, uint32_t a, uint32_t b)
{
	return add_node(r, (struct node){.op = (uint8_t)op, .a = a, .b = b});
}

static uint32_t add_number(struct reader *r, int64_t v)
{
	return add_node(r, (struct node){.op = NODE_CONST, .imm = v});
}

/* The place of a parameter among those that may be addresses. */
static unsigned word_of(struct reader *r, uint32_t offset)
{
	struct ptx_extent *e = &r->t->extent;
	unsigned i = 0;

	while (i < e->n_words && e->word[i] != offset)
		i++;
	if (i == WORDS_MAX) {
		wrong(r, "the kernel has too many parameters");
		return 0;
	}
	if (i == e->n_words)
		e->word[e->n_words++] = offset;
	return i;
}

static uint32_t offset_in(struct reader *r)
{
	int64_t v;

	want(r, "[", "expected [ and the offset of a parameter");
	v = number(r);
	want(r, "]", "expected ]");
	if (v >= 0 && v <= OFFSET_MAX)
		return (uint32_t)v;
	wrong(r, "a parameter is within 4096 bytes");
	return 0;
}

/* A parameter of so many bits; u: without a sign. */
static uint32_t param(struct reader *r, unsigned bits, bool u)
{
	uint32_t offset = offset_in(r), n;

	n = add_node(
		r, (struct node){.op = NODE_PARAM, .bits = (uint8_t)bits, .imm = offset});
	if (bits == 64)
		r->words |= 1ull << word_of(r, offset);
	return u && bits < 64 ? add_node(r, (struct node){.op = NODE_UNSIGNED,
							  .bits = (uint8_t)bits,
							  .a = n})
			      : n;
}

static bool take_param(struct reader *r, uint32_t *ret_n)
{
	static const struct {
		const char *name;
		uint8_t bits;
		bool u;
	} types[] = {{"u64", 64, true},  {"s64", 64, false}, {"u32", 32, true},
		     {"s32", 32, false}, {"u16", 16, true},  {"s16", 16, false},
		     {"u8", 8, true},    {"s8", 8, false}};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (take(r, types[i].name)) {
			*ret_n = param(r, types[i].bits, types[i].u);
			return true;
		}
	}
	return false;
}

static bool take_sreg(struct reader *r, uint32_t *ret_n)
{
	static const struct {
		const char *name;
		enum ptx_sreg sreg;
	} sregs[] = {
		{"tid.x", PTX_SR_TID_X},       {"tid.y", PTX_SR_TID_Y},
		{"tid.z", PTX_SR_TID_Z},       {"ntid.x", PTX_SR_NTID_X},
		{"ntid.y", PTX_SR_NTID_Y},     {"ntid.z", PTX_SR_NTID_Z},
		{"ctaid.x", PTX_SR_CTAID_X},   {"ctaid.y", PTX_SR_CTAID_Y},
		{"ctaid.z", PTX_SR_CTAID_Z},   {"nctaid.x", PTX_SR_NCTAID_X},
		{"nctaid.y", PTX_SR_NCTAID_Y}, {"nctaid.z", PTX_SR_NCTAID_Z},
	};

	for (size_t i = 0; i < ARRAY_SIZE(sregs); i++) {
		if (take(r, sregs[i].name)) {
			*ret_n = add_node(
				r, (struct node){.op = NODE_SREG, .imm = sregs[i].sreg});
			return true;
		}
	}
	return false;
}

static uint32_t sum(struct reader *r);
static uint32_t primary(struct reader *r);

static void two(struct reader *r, uint32_t *ret_a, uint32_t *ret_b)
{
	want(r, "(", "expected (");
	*ret_a = sum(r);
	want(r, ",", "expected a comma");
	*ret_b = sum(r);
	want(r, ")", "expected )");
}

static uint32_t unit(struct reader *r)
{
	uint32_t a = 0, b = 0;

	if (take_param(r, &a) || take_sreg(r, &a))
		return a;
	if (take(r, "(")) {
		a = sum(r);
		want(r, ")", "expected )");
		return a;
	}
	if (take(r, "-")) {
		a = add_number(r, 0);
		return add_op(r, NODE_SUB, a, primary(r));
	}
	if (take(r, "min") || take(r, "max")) {
		enum node_op op = r->at[-1] == 'n' ? NODE_MIN : NODE_MAX;

		two(r, &a, &b);
		return add_op(r, op, a, b);
	}
	if (take(r, "each")) {
		two(r, &a, &b);
		return add_node(
			r, (struct node){.op = NODE_LOOP,
					 .a = add_number(r, 0),
					 .b = a,
					 .c = b,
					 .sym = (uint16_t)(EACH_SYMS + r->n_each++)});
	}
	return add_number(r, number(r));
}

static uint32_t primary(struct reader *r)
{
	uint32_t a = 0;

	if (++r->depth > DEPTH_MAX)
		wrong(r, "too much in one another");
	else
		a = unit(r);
	r->depth--;
	return a;
}

struct sign {
	const char *text;
	enum node_op op;
};

/* Parts with signs between them, from left to right. */
static uint32_t chain(struct reader *r, const struct sign *signs, size_t n,
		      uint32_t (*part)(struct reader *r))
{
	uint32_t a = part(r);
	size_t i = 0;

	while (!r->why && i < n) {
		for (i = 0; i < n && !take(r, signs[i].text); i++)
			;
		if (i < n)
			a = add_op(r, signs[i].op, a, part(r));
	}
	return a;
}

static uint32_t product(struct reader *r)
{
	static const struct sign signs[] = {
		{"*", NODE_MUL}, {"/", NODE_DIV}, {"%", NODE_REM}};

	return chain(r, signs, ARRAY_SIZE(signs), primary);
}

static uint32_t sum(struct reader *r)
{
	static const struct sign signs[] = {{"+", NODE_ADD}, {"-", NODE_SUB}};

	return chain(r, signs, ARRAY_SIZE(signs), product);
}

/* ---- lines ---- */

static void access_line(struct reader *r)
{
	struct ptx_extent *e;
	struct access a = {0};

	if (!r->t) {
		wrong(r, "expected kernel before this");
		return;
	}
	e = &r->t->extent;
	r->words = 0;
	a.node = sum(r);
	want(r, "bytes", "expected bytes");
	a.hi = number(r);
	a.words = r->words;
	if (a.hi < 1 || a.hi > BYTES_MAX)
		wrong(r, "bytes are from 1 to 2^40");
	else if (e->n_accesses == ACCESSES_MAX)
		wrong(r, "the kernel reaches too many places");
	else
		r->accesses[e->n_accesses++] = a;
	e->all++;
	e->known++;
}

/* A parameter from which on the kernel reaches nobody knows how much. */
static void somewhere_line(struct reader *r)
{
	uint32_t offset;

	if (!r->t) {
		wrong(r, "expected kernel before this");
		return;
	}
	want(r, "u64", "expected u64");
	offset = offset_in(r);
	r->t->extent.open |= 1ull << word_of(r, offset);
	r->t->extent.all++;
}

/* Takes the rest of the line. */
static char *name(struct reader *r)
{
	const char *from, *to = r->end;

	skip_space(r);
	from = r->at;
	while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
		to--;
	r->at = r->end;
	if (to == from || memchr(from, '\0', (size_t)(to - from))) {
		wrong(r, "expected a kernel's name");
		return NULL;
	}
	return strndup(from, (size_t)(to - from));
}

static int hex(char c)
{
	return isdigit((unsigned char)c) ? c - '0'
	       : c >= 'a' && c <= 'f'    ? c - 'a' + 10
					 : -1;
}

static void code_line(struct reader *r)
{
	r->code = (struct ptx_code){0};
	r->any = take(r, "*");
	r->has_code = true;
	for (unsigned i = 0; !r->any && i < 32; i++, r->at++) {
		int digit;

		skip_space(r);
		digit = r->at < r->end ? hex(*r->at) : -1;
		if (digit < 0) {
			wrong(r, "expected * or 32 hexadecimal digits");
			return;
		}
		r->code.hash[i / 16] = r->code.hash[i / 16] << 4 | (unsigned)digit;
	}
}

/* The kernel in hand gets what was read of it. */
static int close_kernel(struct reader *r)
{
	struct ptx_extent *e = r->t ? &r->t->extent : NULL;

	if (!e)
		return 0;
	r->t = NULL;
	e->nodes = calloc(e->n_nodes + 1, sizeof(*e->nodes));
	e->accesses = calloc(e->n_accesses + 1, sizeof(*e->accesses));
	if (!e->nodes || !e->accesses)
		return -ENOMEM;
	memcpy(e->nodes, r->nodes, e->n_nodes * sizeof(*e->nodes));
	memcpy(e->accesses, r->accesses, e->n_accesses * sizeof(*e->accesses));
	return 0;
}

static int kernel_line(struct reader *r)
{
	struct ptx_templates *all = r->all;
	struct entry *t;

	if (!r->has_code) {
		wrong(r, "expected code before this");
		return 0;
	}
	if (all->n == TEMPLATES_MAX) {
		wrong(r, "too many kernels");
		return 0;
	}
	t = realloc(all->t, (all->n + 1) * sizeof(*t));
	if (!t)
		return -ENOMEM;
	all->t = t;
	t += all->n;
	*t = (struct entry){.code = r->code, .any = r->any, .kernel = name(r)};
	if (!t->kernel)
		return r->why ? 0 : -ENOMEM;
	all->n++;
	r->t = t;
	r->n_each = 0;
	return 0;
}

static int read_line(struct reader *r, bool first)
{
	int error = 0;

	if (first) {
		want(r, "weft-extents", "expected weft-extents 1");
		want(r, "1", "expected version 1");
	} else if (take(r, "code") || take(r, "kernel")) {
		bool code = r->at[-1] == 'e';

		error = close_kernel(r);
		if (code)
			code_line(r);
		else if (error == 0)
			error = kernel_line(r);
	} else if (take(r, "at")) {
		access_line(r);
	} else if (take(r, "somewhere")) {
		somewhere_line(r);
	} else {
		wrong(r, "expected code, kernel, at or somewhere");
	}
	if (!r->why && !is_at_end(r))
		wrong(r, "expected the end of the line");
	return error ? error : r->why ? -EINVAL : 0;
}

/* The next line, without what follows #. */
static void next_line(struct reader *r, const char *text, const char *end)
{
	const char *hash;

	r->at = text;
	r->end = memchr(text, '\n', (size_t)(end - text)) ?: end;
	hash = memchr(text, '#', (size_t)(r->end - text));
	if (hash)
		r->end = hash;
}

static int read_text(struct reader *r, const char *text, size_t size, unsigned *line)
{
	const char *end = text + size;
	bool first = true;
	int error = 0;

	while (text < end && error == 0) {
		const char *after = memchr(text, '\n', (size_t)(end - text)) ?: end;

		++*line;
		next_line(r, text, end);
		if (!is_at_end(r)) {
			error = read_line(r, first);
			first = false;
		}
		text = after + (after < end);
	}
	if (error == 0 && first) {
		wrong(r, "expected weft-extents 1");
		error = -EINVAL;
	}
	return error ? error : close_kernel(r);
}

int ptx_templates_new(const char *text, size_t size, struct ptx_templates **ret,
		      struct ptx_template_error *ret_error)
{
	struct reader *r = calloc(1, sizeof(*r));
	unsigned line = 0;
	int error = -ENOMEM;

	*ret_error = (struct ptx_template_error){0};
	if (r)
		r->all = calloc(1, sizeof(*r->all));
	if (r && r->all)
		error = size > TEMPLATES_TEXT_MAX ? -EINVAL
						  : read_text(r, text, size, &line);
	if (error == -EINVAL)
		*ret_error = (struct ptx_template_error){
			line, r->why ?: "is longer than 1 MiB"};
	if (error == 0)
		*ret = r->all;
	else if (r)
		ptx_templates_free(r->all);
	free(r);
	return error;
}

void ptx_templates_free(struct ptx_templates *t)
{
	for (unsigned i = 0; t && i < t->n; i++) {
		free(t->t[i].kernel);
		free(t->t[i].extent.nodes);
		free(t->t[i].extent.accesses);
	}
	if (t)
		free(t->t);
	free(t);
}

const struct ptx_extent *ptx_templates_find(const struct ptx_templates *t,
					    const struct ptx_code *code,
					    const char *kernel)
{
	const struct ptx_extent *found = NULL;

	for (unsigned i = 0; t && i < t->n; i++) {
		const struct entry *k = &t->t[i];
		bool its = !memcmp(&k->code, code, sizeof(*code)) && !k->any;

		if (strcmp(k->kernel, kernel) != 0 || !(its || k->any))
			continue;
		if (its)
			return &k->extent;
		if (!found)
			found = &k->extent;
	}
	return found;
}
