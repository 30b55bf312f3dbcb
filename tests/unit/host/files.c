/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a daemon finds where its own are to be: taken, replaced or left alone. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/sockfile.h"
#include "broker/window.h"
#include "wire.h"

#define SIZE (16u << 20)

static char dir[64], path[96];

static void begin(void)
{
	strcpy(dir, "/tmp/weft-files-XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/x", dir);
}

static void end(void)
{
	unlink(path);
	rmdir(dir);
}

static void write_file(const void *data, size_t n, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, data, n), (ssize_t)n);
	cr_assert_eq(fchmod(fd, mode), 0);
	close(fd);
}

static void still_says(const char *text)
{
	char buf[64] = "";
	int fd = open(path, O_RDONLY);
	struct stat st;

	cr_assert_eq(fstat(fd, &st), 0);
	cr_assert_eq((size_t)st.st_size, strlen(text), "the file has grown");
	cr_assert_eq(read(fd, buf, sizeof(buf)), (ssize_t)strlen(text));
	cr_assert_str_eq(buf, text);
	close(fd);
}

/* ---- sockets ---- */

static int listen_at(int type)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type, 0);

	strcpy(sa.sun_path, path);
	cr_assert_eq(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	cr_assert_eq(listen(fd, 1), 0);
	return fd;
}

Test(sockfile, other_files_stay, .init = begin, .fini = end)
{
	write_file("important", 9, 0600);
	cr_assert_eq(sockfile_clear(path, false), -EEXIST);
	cr_assert_eq(sockfile_clear(path, true), -EEXIST);
	still_says("important");
	unlink(path);
	cr_assert_eq(symlink("/nonexistent", path), 0);
	cr_assert_eq(sockfile_clear(path, true), -EEXIST);
	unlink(path);
	cr_assert_eq(mkdir(path, 0700), 0);
	cr_assert_eq(sockfile_clear(path, true), -EEXIST);
	rmdir(path);
}

Test(sockfile, only_stale_sockets_go, .init = begin, .fini = end)
{
	static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};

	cr_assert_eq(sockfile_clear(path, false), 0, "nothing there");
	for (unsigned i = 0; i < 2; i++) {
		int fd = listen_at(types[i]);

		cr_assert_eq(sockfile_clear(path, false), -EADDRINUSE);
		cr_assert_eq(access(path, F_OK), 0);
		close(fd);
		cr_assert_eq(sockfile_clear(path, false), 0);
		cr_assert_neq(access(path, F_OK), 0);
	}
	close(listen_at(SOCK_STREAM));
	unlink(path);
	int fd = listen_at(SOCK_STREAM);

	cr_assert_eq(sockfile_clear(path, true), 0, "the caller holds the lock");
	cr_assert_neq(access(path, F_OK), 0);
	close(fd);
}

Test(sockfile, only_our_own_is_removed, .init = begin, .fini = end)
{
	int fd = listen_at(SOCK_STREAM), other;
	struct sockfile f, none = {0};

	cr_assert_eq(sockfile_note(path, &f), 0);
	sockfile_remove(path, &none);
	cr_assert_eq(access(path, F_OK), 0);
	unlink(path);
	write_file("important", 9, 0600);
	sockfile_remove(path, &f);
	still_says("important");
	unlink(path);
	other = listen_at(SOCK_STREAM);
	cr_assert_eq(sockfile_note(path, &f), 0);
	sockfile_remove(path, &f);
	cr_assert_neq(access(path, F_OK), 0);
	close(fd);
	close(other);
}

/* ---- windows ---- */

static int open_window(const struct window_owner *who, bool *ret_created)
{
	struct window_owner daemon = {.uid = geteuid(), .gid = getegid()};
	const char *why;
	int r = window_file_open(path, SIZE, who ? who : &daemon, NULL, ret_created,
				 &why);

	if (r < 0)
		cr_expect(why, "no sentence for error %d", -r);
	return r;
}

static void is_refused(void)
{
	bool created;

	cr_expect_lt(open_window(NULL, &created), 0);
}

static void is_taken(bool made)
{
	bool created = !made;
	struct stat st;
	int fd = open_window(NULL, &created);

	cr_assert_geq(fd, 0);
	cr_expect_eq(created, made);
	cr_expect_eq(fstat(fd, &st), 0);
	cr_expect_eq(st.st_size, SIZE);
	close(fd);
}

Test(window_file, made_if_there_is_none, .init = begin, .fini = end)
{
	struct stat st;

	is_taken(true);
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0600);
	is_taken(false);
}

Test(window_file, a_file_system_without_room, .init = begin, .fini = end)
{
	const struct window_owner who = {geteuid(), getegid()};
	const char *why = NULL;
	bool created;

	cr_assert_eq(window_file_open(path, 1ull << 60, &who, NULL, &created, &why),
		     -ENOSPC);
	cr_assert_not_null(strstr(why, "no room"), "%s", why);
	cr_assert_eq(access(path, F_OK), -1, "a file is left");
}

Test(window_file, other_data_stays, .init = begin, .fini = end)
{
	static char late[SIZE / 2];

	write_file("important data", 14, 0600);
	is_refused();
	still_says("important data");
	/* An image whose beginning is empty. */
	late[sizeof(late) - 1] = 1;
	write_file(late, sizeof(late), 0600);
	is_refused();
	late[sizeof(late) - 1] = 0;
	write_file(late, sizeof(late), 0600);
	is_taken(false);
}

Test(window_file, a_window_is_taken_again, .init = begin, .fini = end)
{
	struct wire_window_id id = {.magic = WIRE_MAGIC, .version = 1, .key = 7};

	write_file(&id, sizeof(id), 0600);
	is_taken(false);
	write_file("", 0, 0640);
	is_taken(false);
}

/* A file is taken again though its VM wrote over its head. */
Test(window_file, a_noted_file_is_taken_again, .init = begin, .fini = end)
{
	struct window_owner who = {.uid = geteuid(), .gid = getegid()};
	struct window_note note;
	const char *why;
	struct stat st;
	bool created;
	int fd;

	write_file("what a guest wrote", 18, 0600);
	cr_assert_eq(stat(path, &st), 0);
	note = (struct window_note){.dev = st.st_dev, .ino = st.st_ino + 1};
	cr_assert_lt(window_file_open(path, SIZE, &who, &note, &created, &why), 0);
	note.ino--;
	fd = window_file_open(path, SIZE, &who, &note, &created, &why);
	cr_assert_geq(fd, 0);
	cr_assert(!created);
	close(fd);
	cr_assert_eq(chmod(path, 0602), 0);
	cr_assert_lt(window_file_open(path, SIZE, &who, &note, &created, &why), 0);
}

Test(window_file, whoever_else_may_write_it, .init = begin, .fini = end)
{
	struct window_owner group = {.uid = geteuid(), .gid = getegid() + 1};
	bool created;

	write_file("", 0, 0602);
	is_refused();
	write_file("", 0, 0620);
	is_taken(false); /* its group is the daemon's */
	write_file("", 0, 0620);
	cr_assert_lt(open_window(&group, &created), 0);
	still_says("");
}

Test(window_file, not_an_ordinary_file, .init = begin, .fini = end)
{
	char other[112];

	cr_assert_eq(mkfifo(path, 0600), 0);
	is_refused();
	unlink(path);
	snprintf(other, sizeof(other), "%s-2", path);
	write_file("", 0, 0600);
	cr_assert_eq(link(path, other), 0);
	is_refused();
	unlink(path);
	cr_assert_eq(symlink(other, path), 0);
	is_refused();
	unlink(other);
}

Test(window_file, of_another_user, .init = begin, .fini = end)
{
	struct window_owner named = {.uid = 12345, .gid = getegid()};
	bool created;

	if (geteuid() != 0)
		cr_skip_test("only root can give files away");
	write_file("", 0, 0600);
	cr_assert_eq(chown(path, 12345, (gid_t)-1), 0);
	is_refused();
	cr_assert_geq(open_window(&named, &created), 0);
}
