/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of this process that can be closed: whoever touches one, in a system call too, waits
 * until it is opened, which a function of ours sees to. `at` and `size` are whole pages. Any
 * thread.
 */
#ifndef WEFT_GUEST_PAGES_H
#define WEFT_GUEST_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* addr: of the page. */
typedef uint64_t pages_touched(uintptr_t addr, bool writes);
/* Has touched() called, on a thread of its own, for each page that is touched while it is closed, and
 * each that is written while it is lent; always the same function. It returns when (clock_now_ns())
 * it is to be called with 0, unless something is touched before; 0: not at all. Returns 0, also if
 * it works already, or -errno: the process may not. */
int pages_start(pages_touched *touched);
/* Puts closed pages over whatever is there, in one step; a forked child has none of them. 0 or
 * -errno: nothing has changed. */
int pages_close(uintptr_t at, size_t size);
/* Puts the window's memory from offset there, which a forked child does not have either, and
 * has those that wait go on. 0 or -errno: there is nothing then. */
int pages_open(uintptr_t at, size_t size, uint64_t offset);
/* Closes pages that were opened by pages_fill(), in one step, and has what was in them elsewhere,
 * the caller's to munmap(). 0 or -errno: nothing has changed. */
int pages_take(uintptr_t at, size_t size, void **ret_pages);
/* Puts bytes into closed pages, zeroes if from is NULL, and has those that wait go on. They are the
 * process's own. 0 or -errno. */
int pages_fill(uintptr_t at, size_t size, const void *from);
/* Whether that can be; asked once, by some system calls. */
bool pages_can_take(void);
/* Puts a copy of the window's memory from offset into closed pages, for reading alone, and has those
 * that wait go on. 0 or -errno: they are as they were. */
int pages_lend(uintptr_t at, size_t size, uint64_t offset);
/* Whether that can be. */
bool pages_can_lend(void);
/* Closes lent pages again. */
void pages_take_back(uintptr_t at, size_t size);
/* Leaves nothing there but a reservation of the band. Touching it is an error again. */
void pages_end(uintptr_t at, size_t size);
/* Lets go on who waits for the page at addr. */
void pages_wake(uintptr_t addr);
/* Some are lent, for as long as nothing changes what they are a copy of: each thread calls
 * pages_on_command(), set before any is, before and after it says a command to the host. */
extern _Atomic bool pages_lent;
extern void (*pages_on_command)(void);
/* In a forked child. */
void pages_after_fork(void);

#endif
