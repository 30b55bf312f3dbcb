/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

static const char *const level_names[] = {
	[LOG_LVL_ERROR] = "error",
	[LOG_LVL_WARNING] = "warning",
	[LOG_LVL_INFO] = "info",
	[LOG_LVL_DEBUG] = "debug",
};

#define LEVEL_UNSET (LOG_LVL_NONE - 1)

/* As sd-daemon(3) has them. */
static const char *const priorities[] = {
	[LOG_LVL_ERROR] = "<3>",
	[LOG_LVL_WARNING] = "<4>",
	[LOG_LVL_INFO] = "<6>",
	[LOG_LVL_DEBUG] = "<7>",
};

static const char *program = "weft";
static atomic_int current_level = LEVEL_UNSET;
static bool (*sink)(enum log_level level, const char *text);
static atomic_int journal = -1; /* whether stderr is one's stream; -1: not known yet */

void log_set_program(const char *name)
{
	program = name;
}

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

static bool parse_level(const char *text, enum log_level *ret_level)
{
	for (unsigned i = 0; i < ARRAY_SIZE(level_names); i++) {
		if (strcmp(text, level_names[i]) == 0) {
			*ret_level = (enum log_level)i;
			return true;
		}
	}
	return false;
}

/* The manager says which file stderr was; a program's may be another one since. */
static bool is_journal(void)
{
	const char *env = getenv("JOURNAL_STREAM");
	uintmax_t dev, ino;
	struct stat st;
	char *end;

	if (!env)
		return false;
	dev = strtoumax(env, &end, 10);
	if (*end != ':')
		return false;
	ino = strtoumax(end + 1, &end, 10);
	return fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

bool log_to_journal(void)
{
	int is = atomic_load_explicit(&journal, memory_order_relaxed);

	if (unlikely(is < 0)) {
		is = is_journal();
		atomic_store_explicit(&journal, is, memory_order_relaxed);
	}
	return is;
}

const char *log_priority(enum log_level level)
{
	return log_to_journal() ? priorities[level] : "";
}

void log_set_sink(bool (*fn)(enum log_level level, const char *text))
{
	sink = fn;
}

static void write_line(enum log_level level, const char *fmt, va_list ap)
{
	char line[1024];
	int n, m;

	n = snprintf(line, sizeof(line), "%s%s: %s: ", log_priority(level), program,
		     level_names[level]);
	m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	if (m < 0 || (sink && sink(level, line + n)))
		return;
	n = MIN(n + m, (int)sizeof(line) - 2);
	line[n++] = '\n';
	/* Nothing sensible can be done when stderr is gone. */
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return;
}

/* Writes a line at any level. */
_printf_(2, 3) static void say(enum log_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	write_line(level, fmt, ap);
	va_end(ap);
}

bool log_enabled(enum log_level level)
{
	int cur = atomic_load_explicit(&current_level, memory_order_relaxed);

	if (unlikely(cur == LEVEL_UNSET)) {
		enum log_level from_env = LOG_LVL_WARNING;
		const char *env = getenv("WEFT_LOG");

		bool known = !env || parse_level(env, &from_env);

		cur = (int)from_env;
		atomic_store_explicit(&current_level, cur, memory_order_relaxed);
		if (!known)
			say(LOG_LVL_WARNING,
			    "WEFT_LOG=%s is none of error, warning, info, debug", env);
	}
	return (int)level <= cur;
}

void log_msg(enum log_level level, const char *fmt, ...)
{
	va_list ap;

	if (!log_enabled(level))
		return;
	va_start(ap, fmt);
	write_line(level, fmt, ap);
	va_end(ap);
}

bool log_limit_ok(struct log_limit *l, unsigned burst)
{
	uint64_t now = clock_now_ns();

	if (now - l->window_start_ns >= NSEC_PER_SEC) {
		if (l->dropped)
			log_warning("%u similar messages not shown", l->dropped);
		l->window_start_ns = now;
		l->seen = 0;
		l->dropped = 0;
	}
	if (l->seen < burst) {
		l->seen++;
		return true;
	}
	l->dropped++;
	return false;
}
