/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Enough of Criterion's interface to run our tests under ThreadSanitizer, where Criterion
 * itself cannot start: it maps an arena at an address that the sanitizer has taken. One
 * forked process a test, TAP on stdout. Included instead of the real header when the tree
 * is configured with -Db_sanitize=thread; the first source
 * file of a program has its tests.
 */
#ifndef WEFT_TSAN_CRITERION_H
#define WEFT_TSAN_CRITERION_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct criterion_test {
	const char *suite, *name;
	void (*run)(void);
	struct criterion_test *next;
	/* Settings that Test() may change. */
	double timeout;
	int signal, exit_code;
	bool disabled;
	void (*init)(void);
	void (*fini)(void);
};

static struct criterion_test *criterion_tests;
static struct criterion_test *criterion_suites; /* what TestSuite() set, by suite */

#define TestSuite(suite_, ...)                                                           \
	static struct criterion_test suite_##_suite = {.suite = #suite_, ##__VA_ARGS__}; \
	__attribute__((constructor)) static void suite_##_suite_register(void)           \
	{                                                                                \
		suite_##_suite.next = criterion_suites;                                  \
		criterion_suites = &suite_##_suite;                                      \
	}                                                                                \
	struct criterion_test /* swallows the semicolon */

#define Test(suite_, name_, ...)                                                         \
	static void suite_##_##name_##_run(void);                                        \
	static struct criterion_test suite_##_##name_##_test = {                         \
		.suite = #suite_,                                                        \
		.name = #name_,                                                          \
		.run = suite_##_##name_##_run,                                           \
		##__VA_ARGS__};                                                          \
	__attribute__((constructor)) static void suite_##_##name_##_register(void)       \
	{                                                                                \
		suite_##_##name_##_test.next = criterion_tests;                          \
		criterion_tests = &suite_##_##name_##_test;                              \
	}                                                                                \
	static void suite_##_##name_##_run(void)

#define criterion_check(ok, text, ...)                                                   \
	do {                                                                             \
		if (!(ok)) {                                                             \
			printf("# %s:%d: %s", __FILE__, __LINE__, text);                \
			printf(" " __VA_ARGS__);                                         \
			printf("\n");                                                    \
			fflush(stdout);                                                  \
			_exit(1);                                                        \
		}                                                                        \
	} while (0)

#define cr_assert(e, ...)	 criterion_check(e, #e, ##__VA_ARGS__)
#define cr_assert_not(e, ...)	 criterion_check(!(e), "not " #e, ##__VA_ARGS__)
#define cr_assert_eq(a, b, ...)	 criterion_check((a) == (b), #a " == " #b, ##__VA_ARGS__)
#define cr_assert_neq(a, b, ...) criterion_check((a) != (b), #a " != " #b, ##__VA_ARGS__)
#define cr_assert_lt(a, b, ...)	 criterion_check((a) < (b), #a " < " #b, ##__VA_ARGS__)
#define cr_assert_gt(a, b, ...)	 criterion_check((a) > (b), #a " > " #b, ##__VA_ARGS__)
#define cr_assert_leq(a, b, ...) criterion_check((a) <= (b), #a " <= " #b, ##__VA_ARGS__)
#define cr_assert_geq(a, b, ...) criterion_check((a) >= (b), #a " >= " #b, ##__VA_ARGS__)
#define cr_assert_null(p, ...)	 criterion_check(!(p), #p " is NULL", ##__VA_ARGS__)
#define cr_assert_not_null(p, ...)                                                       \
	criterion_check((p) != NULL, #p " is not NULL", ##__VA_ARGS__)
#define cr_assert_str_eq(a, b, ...)                                                      \
	criterion_check(strcmp(a, b) == 0, #a " equals " #b, ##__VA_ARGS__)
#define cr_assert_fail(...) criterion_check(false, "fail", ##__VA_ARGS__)
#define cr_fail(...)	    criterion_check(false, "fail", ##__VA_ARGS__)

#define cr_expect	 cr_assert
#define cr_expect_not	 cr_assert_not
#define cr_expect_null	 cr_assert_null
#define cr_expect_not_null cr_assert_not_null
#define cr_expect_eq	 cr_assert_eq
#define cr_expect_neq	 cr_assert_neq
#define cr_expect_lt	 cr_assert_lt
#define cr_expect_gt	 cr_assert_gt
#define cr_expect_leq	 cr_assert_leq
#define cr_expect_geq	 cr_assert_geq
#define cr_expect_str_eq cr_assert_str_eq

/* A sanitizer is some ten times slower than what the time-outs are made for. */
#define CRITERION_SLOWDOWN 10

static const struct criterion_test *criterion_suite_of(const struct criterion_test *t)
{
	static const struct criterion_test none;

	for (const struct criterion_test *s = criterion_suites; s; s = s->next) {
		if (strcmp(s->suite, t->suite) == 0)
			return s;
	}
	return &none;
}

static bool criterion_run(const struct criterion_test *t)
{
	const struct criterion_test *s = criterion_suite_of(t);
	double timeout = t->timeout > 0 ? t->timeout : s->timeout > 0 ? s->timeout : 60;
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm((unsigned)(timeout * CRITERION_SLOWDOWN));
		if (s->init)
			s->init();
		if (t->init)
			t->init();
		t->run();
		if (t->fini)
			t->fini();
		if (s->fini)
			s->fini();
		fflush(NULL);
		exit(0); /* not _exit(): the sanitizer sets its status here */
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return false;
	if (t->signal)
		return WIFSIGNALED(status) && WTERMSIG(status) == t->signal;
	return WIFEXITED(status) && WEXITSTATUS(status) == t->exit_code;
}

/* Weak: of several files of a program, the first has the tests and runs them. */
__attribute__((weak)) int main(void)
{
	unsigned n = 0, failed = 0;

	for (struct criterion_test *t = criterion_tests; t; t = t->next)
		n++;
	printf("1..%u\n", n);
	n = 0;
	for (struct criterion_test *t = criterion_tests; t; t = t->next) {
		bool ok = t->disabled || criterion_run(t);

		failed += !ok;
		printf("%s %u %s::%s%s\n", ok ? "ok" : "not ok", ++n, t->suite, t->name,
		       t->disabled ? " # SKIP disabled" : "");
	}
	return failed != 0;
}

#endif
