/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled code between processes, on a disk that is full, damaged or not there. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "core/code_cache.h"

static char top[64], folder[80];

static void setup(void)
{
	strcpy(top, "/tmp/weft-cache-XXXXXX");
	cr_assert(mkdtemp(top));
	snprintf(folder, sizeof(folder), "%s/a/b", top);
	setenv("CUDA_CACHE_PATH", folder, 1);
	strcat(folder, "/weft");
	unsetenv("CUDA_CACHE_DISABLE");
	unsetenv("CUDA_CACHE_MAXSIZE");
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void teardown(void)
{
	nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

TestSuite(guest_code_cache, .init = setup, .fini = teardown);

static struct code_key key_of(const char *text)
{
	struct code_part part = {text, strlen(text)};

	return code_key_of(&part, 1);
}

static void put(const char *name, const char *text)
{
	struct code_key k = key_of(name);

	code_cache_put(&k, text, strlen(text) + 1);
}

/* The text kept under a name, or NULL. */
static char *get(const char *name)
{
	struct code_key k = key_of(name);
	size_t size = 0;
	void *data;
	int r = code_cache_get(&k, &data, &size);

	cr_assert(r == 0 || r == -ENOENT, "%d", r);
	if (r == 0)
		cr_expect_eq(strlen(data) + 1, size);
	return r == 0 ? data : NULL;
}

/* Another process keeps something: what is found afterwards comes from the disk. */
static void put_elsewhere(const char *name, const char *text)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		put(name, text);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
}

static void path_of(const char *name, char *buf)
{
	struct code_key k = key_of(name);

	sprintf(buf, "%s/%016llx%016llx", folder, (unsigned long long)k.word[1],
		(unsigned long long)k.word[0]);
}

static unsigned files(uint64_t *ret_bytes)
{
	DIR *d = opendir(folder);
	struct dirent *e;
	struct stat st;
	unsigned n = 0;

	*ret_bytes = 0;
	while (d && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		cr_expect_eq(fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW), 0);
		*ret_bytes += (uint64_t)st.st_size;
		n++;
	}
	if (d)
		closedir(d);
	return n;
}

Test(guest_code_cache, next_process)
{
	_cleanup_free_ char *a = NULL, *again = NULL;
	struct stat st;

	cr_expect_null(get("a"));
	put_elsewhere("a", "code of a");
	a = get("a");
	cr_assert_not_null(a);
	cr_expect_str_eq(a, "code of a");
	again = get("a");
	cr_expect_str_eq(again, "code of a");
	cr_expect_null(get("b"));
	cr_assert_eq(stat(folder, &st), 0);
	cr_expect_eq(st.st_mode & 0777, 0700, "for nobody else");
}

Test(guest_code_cache, a_damaged_file_is_removed)
{
	static const struct {
		long at;
		char byte;
	} where[] = {{0, 'x'}, {10, 'x'}, {26, 'x'}, {34, 'x'}, {45, 'x'}};
	char path[PATH_MAX];

	path_of("a", path);
	for (unsigned i = 0; i < ARRAY_SIZE(where); i++) {
		FILE *f;

		put_elsewhere("a", "code of a");
		f = fopen(path, "r+");
		cr_assert_not_null(f);
		fseek(f, where[i].at, SEEK_SET);
		fputc(where[i].byte, f);
		fclose(f);
		cr_expect_null(get("a"), "byte %ld", where[i].at);
		cr_expect_eq(access(path, F_OK), -1, "removed");
	}
	for (off_t size = 0; size < 50; size += 7) {
		put_elsewhere("a", "code of a");
		cr_assert_eq(truncate(path, size), 0);
		cr_expect_null(get("a"));
	}
}

Test(guest_code_cache, things_that_are_no_files)
{
	char path[PATH_MAX], other[PATH_MAX];

	put_elsewhere("other", "code of other");
	path_of("a", path);
	path_of("other", other);
	cr_assert_eq(symlink(other, path), 0);
	cr_expect_null(get("a"), "links are not followed");
	unlink(path);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_expect_null(get("a"), "and nobody waits for a writer");
	unlink(path);
	cr_assert_eq(mkdir(path, 0700), 0);
	cr_expect_null(get("a"));
	put("a", "in memory");
	free(get("a"));
}

Test(guest_code_cache, the_cache_drops_its_oldest_files_at_its_bound)
{
	static char text[100000];
	char name[16], path[PATH_MAX];
	struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	uint64_t bytes;

	setenv("CUDA_CACHE_MAXSIZE", "500000", 1);
	memset(text, 'x', sizeof(text) - 1);
	for (unsigned i = 0; i < 20; i++) {
		sprintf(name, "%u", i);
		put(name, text);
		path_of(name, path);
		old[0].tv_sec = old[1].tv_sec = 1000 + i;
		utimensat(AT_FDCWD, path, old, 0);
		files(&bytes);
		cr_expect_leq(bytes, 500000);
	}
	path_of("19", path);
	cr_expect_eq(access(path, F_OK), 0, "the newest is there");
	path_of("0", path);
	cr_expect_eq(access(path, F_OK), -1, "the oldest is not");
}

Test(guest_code_cache, a_disabled_cache_keeps_nothing)
{
	uint64_t bytes;

	setenv("CUDA_CACHE_DISABLE", "1", 1);
	cr_expect_not(code_cache_enabled());
	put("a", "code of a");
	cr_expect_null(get("a"));
	cr_expect_eq(files(&bytes), 0);
}

Test(guest_code_cache, no_disk)
{
	_cleanup_free_ char *a = NULL;

	setenv("CUDA_CACHE_PATH", "/dev/null/x", 1);
	put("a", "code of a");
	a = get("a");
	cr_assert_not_null(a);
	cr_expect_str_eq(a, "code of a", "this process still has it");
}

Test(guest_code_cache, full_disk)
{
	static char text[100000];
	struct rlimit small = {4096, 4096};
	uint64_t bytes;
	char *a;

	memset(text, 'x', sizeof(text) - 1);
	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	put("a", text);
	a = get("a");
	cr_expect_not_null(a);
	free(a);
	cr_expect_eq(files(&bytes), 0, "and nothing half written is left");
}

static _Noreturn void write_and_read(unsigned me)
{
	char name[16], text[64], *found;

	for (unsigned i = 0; i < 300; i++) {
		sprintf(name, "%u", i % 7);
		sprintf(text, "code of %s", name);
		if ((i + me) % 3 == 0)
			put(name, text);
		found = get(name);
		if (found && strcmp(found, text) != 0)
			_exit(1);
		free(found);
		if (i % 5 == 0) {
			struct code_key k = key_of(name);

			code_cache_drop(&k);
		}
	}
	_exit(0);
}

Test(guest_code_cache, many_writers)
{
	int status;

	for (unsigned i = 0; i < 8; i++) {
		if (fork() == 0)
			write_and_read(i);
	}
	for (unsigned i = 0; i < 8; i++) {
		cr_assert_gt(wait(&status), 0);
		cr_expect_eq(status, 0);
	}
}

Test(guest_code_cache, where_a_part_ends_counts_in_a_key)
{
	struct code_part ab_c[] = {{"ab", 2}, {"c", 1}}, a_bc[] = {{"a", 1}, {"bc", 2}};
	struct code_key x = code_key_of(ab_c, 2), y = code_key_of(a_bc, 2),
			z = code_key_of(ab_c, 2);

	cr_expect_neq(memcmp(&x, &y, sizeof(x)), 0, "where a part ends counts");
	cr_expect_eq(memcmp(&x, &z, sizeof(x)), 0);
}
