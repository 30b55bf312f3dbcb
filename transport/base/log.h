/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logging to stderr, one line a message: "<program>: <level>: <text>", with a priority
 * for the journal before it where stderr goes there (JOURNAL_STREAM). Thread-safe; a line
 * is one write(2). Library code logs at debug only. The level comes from WEFT_LOG (error,
 * warning, info, debug; anything else is said once) or from log_set_level(); warning
 * unless told.
 */
#ifndef WEFT_BASE_LOG_H
#define WEFT_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

enum log_level {
	LOG_LVL_NONE = -1, /* says nothing: for tests */
	LOG_LVL_ERROR,
	LOG_LVL_WARNING,
	LOG_LVL_INFO,
	LOG_LVL_DEBUG,
};

/* Sets the name that starts every line; the string must live as long as the process. */
void log_set_program(const char *name);

void log_set_level(enum log_level level);

bool log_enabled(enum log_level level);

/* Prefix of a line of this level: "<3>" for the journal, else "". Thread-safe. */
const char *log_priority(enum log_level level);
/* Whether stderr is the journal's stream. Thread-safe. */
bool log_to_journal(void);

/*
 * Gives messages to fn instead of writing them to stderr, where they go all the same if it
 * returns false. text has neither program nor level before it, nor a line's end. Before
 * there are threads.
 */
void log_set_sink(bool (*fn)(enum log_level level, const char *text));

void log_msg(enum log_level level, const char *fmt, ...) _printf_(2, 3);

#define log_error(...)   log_msg(LOG_LVL_ERROR, __VA_ARGS__)
#define log_warning(...) log_msg(LOG_LVL_WARNING, __VA_ARGS__)
#define log_info(...)    log_msg(LOG_LVL_INFO, __VA_ARGS__)
#define log_debug(...)                                                                   \
	do {                                                                             \
		if (unlikely(log_enabled(LOG_LVL_DEBUG)))                                \
			log_msg(LOG_LVL_DEBUG, __VA_ARGS__);                             \
	} while (0)

/*
 * Rate limit for messages that a guest can cause: at most burst messages per second,
 * then one line that says how many were dropped. Zero-initialise; not thread-safe.
 */
struct log_limit {
	uint64_t window_start_ns;
	unsigned seen;
	unsigned dropped;
};

/* True if a message may be logged now. */
bool log_limit_ok(struct log_limit *l, unsigned burst);

#endif
