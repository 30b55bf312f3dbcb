/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
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

static const char *program = "weft";
static atomic_int current_level = LEVEL_UNSET;

void log_set_program(const char *name)
{
	program = name;
}

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

static void parse_level(const char *text, enum log_level *ret_level)
{
	for (unsigned i = 0; i < ARRAY_SIZE(level_names); i++) {
		if (strcmp(text, level_names[i]) == 0) {
			*ret_level = (enum log_level)i;
			return;
		}
	}
}

bool log_enabled(enum log_level level)
{
	int cur = atomic_load_explicit(&current_level, memory_order_relaxed);

	if (unlikely(cur == LEVEL_UNSET)) {
		enum log_level from_env = LOG_LVL_WARNING;
		const char *env = getenv("WEFT_LOG");

		if (env)
			parse_level(env, &from_env);
		cur = (int)from_env;
		atomic_store_explicit(&current_level, cur, memory_order_relaxed);
	}
	return (int)level <= cur;
}

void log_msg(enum log_level level, const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	int n, m;

	if (!log_enabled(level))
		return;
	n = snprintf(line, sizeof(line), "%s: %s: ", program, level_names[level]);
	va_start(ap, fmt);
	m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	if (m < 0)
		return;
	n = MIN(n + m, (int)sizeof(line) - 2);
	line[n++] = '\n';
	/* Nothing sensible can be done when stderr is gone. */
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return;
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
