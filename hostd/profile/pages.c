/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "profile/pages.h"

/* A word for each page: Documentation/admin-guide/mm/pagemap.rst of Linux. */
#define PRESENT    (1ull << 63)
#define WORDS_READ 512u

/* Adds a page, as far as it is in the span, to the one before if it follows that. */
static int add(struct spans *ret, const struct span *s, uint64_t page)
{
	uint64_t from = MAX(page, s->from), to = MIN(page + PAGES_SIZE, s->to);

	if (ret->n && ret->v[ret->n - 1].to == from) {
		ret->v[ret->n - 1].to = to;
		return 0;
	}
	return spans_add(ret, from, to);
}

int pages_away(const struct span *s, struct spans *ret)
{
	_cleanup_close_ int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t words[WORDS_READ], at = ALIGN_DOWN(s->from, PAGES_SIZE);

	if (fd < 0)
		return -errno;
	while (at < s->to) {
		size_t n = MIN((s->to - at + PAGES_SIZE - 1) / PAGES_SIZE,
			       (uint64_t)WORDS_READ);
		ssize_t got = pread(fd, words, n * sizeof(words[0]),
				    (off_t)(at / PAGES_SIZE * sizeof(words[0])));

		if (got != (ssize_t)(n * sizeof(words[0])))
			return got < 0 ? -errno : -EIO;
		for (size_t i = 0; i < n; i++, at += PAGES_SIZE) {
			if (!(words[i] & PRESENT) && add(ret, s, at) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}
