/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that run: the words that each was started with. */
#ifndef WEFT_TOOLS_PROC_H
#define WEFT_TOOLS_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Words lie one behind the other, each with its end. */
struct proc {
	pid_t pid;
	const char *words;
	size_t len;
};

/* File name of the program. */
const char *proc_name(const struct proc *p);
/* The word after this one, or NULL. */
const char *proc_word_after(const struct proc *p, const char *word);
/* The first word that has text in it, from there on, or NULL. */
const char *proc_word_with(const struct proc *p, const char *text);

/* Calls fn for processes below ROOT/proc until it returns true. Returns that one's number,
 * or 0. */
pid_t proc_find(const char *root, bool (*fn)(const struct proc *p, void *arg), void *arg);

#endif
