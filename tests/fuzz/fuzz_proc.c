/* SPDX-License-Identifier: Apache-2.0 */
/* Words of processes that weftctl doctor looks at: anybody's. Input: a cmdline file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/ctl/proc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Text that is given back ends within the words. */
static void check(const struct proc *p, const char *at)
{
	if (at && (at < p->words || at + strlen(at) > p->words + p->len))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *words = malloc(size + 1);
	struct proc p = {.pid = 1, .words = words, .len = size};

	if (!words || !size) {
		free(words);
		return 0;
	}
	memcpy(words, data, size);
	words[size] = '\0';
	check(&p, proc_name(&p));
	check(&p, proc_word_after(&p, "--cid"));
	check(&p, proc_word_with(&p, "guest-cid"));
	free(words);
	return 0;
}
