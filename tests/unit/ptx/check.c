/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the PTX in files, which may be text or anything that holds fatbin containers,
 * as object files and programs do, and checks what ptx.h guarantees. Says one line for
 * each module; with -l, also links all of them into one. With -r DIR, adds persistent forms of
 * its kernels to each, says why others have none, checks that too, and writes it to a file there;
 * with -y DIR, forms with yield points.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "ptx/fatbin.h"
#include "ptx/rewrite/persist.h"
#include "verify.h"

#define MAX_MODULES 64

static const struct ptx_module *modules[MAX_MODULES];
static size_t nmodules;

static int verify(const char *name, const struct ptx_module *m)
{
	const char *e = ptx_verify(m);

	if (e)
		printf("%s: does not hold: %s\n", name, e);
	return e ? -EINVAL : 0;
}

static const char *rewrite_into; /* NULL: nothing is rewritten */
static bool yields;

static int write_text(const struct ptx_persist *p)
{
	static unsigned n;
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%u.ptx", rewrite_into, n++);
	f = fopen(path, "w");
	if (!f || fwrite(p->text, 1, p->len, f) != p->len || fclose(f) != 0) {
		perror(path);
		return -EIO;
	}
	return 0;
}

static int check_rewritten(const char *name, const struct ptx_persist *p)
{
	char buf[2048] = "";
	struct ptx_log log = {buf, sizeof(buf), 0};
	struct ptx_module *m;
	int r;

	for (uint32_t i = 0; i < p->n; i++) {
		if (p->kernels[i].why)
			printf("%s: %s: %s\n", name, p->kernels[i].name,
			       p->kernels[i].why);
		else if (yields)
			printf("%s: %s: %u yield points%s%s\n", name, p->kernels[i].name,
			       p->kernels[i].yields,
			       p->kernels[i].why_no_yield ? ", " : "",
			       p->kernels[i].why_no_yield ? p->kernels[i].why_no_yield
							  : "");
	}
	printf("%s: %u of %u kernels rewritten\n", name, p->n_copies, p->n);
	if (!p->text)
		return 0;
	r = write_text(p);
	if (r == 0)
		r = ptx_parse_source(p->text, p->len, &log, &m);
	if (r < 0) {
		printf("%s, rewritten: %s\n%s", name, strerror(-r), buf);
		return r;
	}
	r = verify(name, m);
	ptx_module_free(m);
	return r;
}

static int rewrite(const char *name, const char *text, size_t len)
{
	struct ptx_persist p;
	int r = ptx_persist(text, len, yields, NULL, &p);

	if (r == 0)
		r = check_rewritten(name, &p);
	ptx_persist_fini(&p);
	return r;
}

static int check_text(const char *name, const char *text, size_t len)
{
	char buf[2048] = "";
	struct ptx_log log = {buf, sizeof(buf), 0};
	uint64_t start = clock_now_ns(), insns = 0;
	struct ptx_module *m;
	int r = ptx_parse(text, len, &log, &m);

	if (r < 0) {
		printf("%s: %s\n%s", name, strerror(-r), buf);
		return r;
	}
	start = clock_now_ns() - start;
	r = verify(name, m);
	for (uint32_t i = 0; i < m->nfuncs; i++)
		insns += m->funcs[i].ninsns;
	printf("%s: sm_%u, %u functions, %u variables, %lu instructions; %zu bytes in "
	       "%.1f "
	       "ms\n",
	       name, m->sm, m->nfuncs, m->nvars, (unsigned long)insns, len, start / 1e6);
	if (nmodules < MAX_MODULES)
		modules[nmodules++] = m;
	if (r == 0 && rewrite_into)
		r = rewrite(name, text, len);
	return r;
}

static int check_image(const char *name, const uint8_t *p, size_t len, unsigned *found)
{
	uint32_t magic = 0;
	char *text;
	size_t n;
	int r;

	for (size_t off = 0; off + FATBIN_HDR_BYTES <= len; off += 8) {
		memcpy(&magic, p + off, sizeof(magic));
		if (magic != FATBIN_MAGIC)
			continue;
		r = fatbin_ptx(p + off, len - off, 90, &text, &n);
		if (r == -ENOEXEC)
			continue;
		if (r < 0) {
			printf("%s: container at %zu: %s\n", name, off, strerror(-r));
			return r;
		}
		++*found;
		r = check_text(name, text, n);
		free(text);
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_file(const char *name)
{
	FILE *f = fopen(name, "rb");
	unsigned found = 0;
	uint8_t *p = NULL;
	long n = -1;
	int r = -EIO;

	if (f && !fseek(f, 0, SEEK_END))
		n = ftell(f);
	if (n > 0)
		p = malloc((size_t)n);
	if (p) {
		rewind(f);
		if (fread(p, 1, (size_t)n, f) == (size_t)n)
			r = memcmp(p, "\177ELF", MIN(n, 4))
				    ? check_text(name, (char *)p, (size_t)n)
				    : check_image(name, p, (size_t)n, &found);
	}
	if (r == 0 && !memcmp(p, "\177ELF", 4) && !found) {
		printf("%s: no PTX\n", name);
		r = -ENOEXEC;
	}
	if (f)
		fclose(f);
	free(p);
	return r;
}

static int check_link(void)
{
	char buf[2048] = "";
	struct ptx_log log = {buf, sizeof(buf), 0};
	struct ptx_module *m;
	int r = ptx_link(modules, nmodules, &log, &m);

	if (r < 0) {
		printf("linking: %s\n%s", strerror(-r), buf);
		return r;
	}
	printf("linked: %u functions, %u variables\n", m->nfuncs, m->nvars);
	r = verify("linked", m);
	ptx_module_free(m);
	return r;
}

int main(int argc, char **argv)
{
	bool link = argc > 1 && !strcmp(argv[1], "-l");
	int bad = 0, first = 1 + link;

	yields = argc > 2 && !strcmp(argv[1], "-y");
	if (argc > 2 && (!strcmp(argv[1], "-r") || yields)) {
		rewrite_into = argv[2];
		first = 3;
	}
	for (int i = first; i < argc; i++)
		bad += check_file(argv[i]) < 0;
	if (link)
		bad += check_link() < 0;
	for (size_t i = 0; i < nmodules; i++)
		ptx_module_free((struct ptx_module *)modules[i]);
	return bad != 0;
}
