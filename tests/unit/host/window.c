/* SPDX-License-Identifier: Apache-2.0 */
/* A VM's window in weftd's books: slices, and what the next daemon finds. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "broker/window.h"
#include "ipc/msg.h"
#include "wire.h"

#define MIB (1ull << 20)

static char dir[] = "/tmp/weft-window-XXXXXX", file[64], note[64];

static void begin(void)
{
	cr_assert(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/window", dir);
	snprintf(note, sizeof(note), "%s/vm1.window", dir);
}

static void end(void)
{
	unlink(file);
	unlink(note);
	rmdir(dir);
}

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static struct wire_window_id head(void)
{
	struct wire_window_id id = {0};
	int fd = open(file, O_RDONLY);

	cr_assert_eq(read(fd, &id, sizeof(id)), sizeof(id));
	close(fd);
	return id;
}

static void open_at(struct window *w, uint64_t size)
{
	struct window_owner who = {.uid = geteuid(), .gid = getegid()};
	const char *why;

	*w = (struct window){.fd = -1};
	cr_assert_eq(window_open(w, file, size, note, &who, &why), 0);
}

/* The VM has the file mapped: the next daemon must find that one, with its key. */
Test(window, outlives_a_daemon, .init = begin, .fini = end)
{
	struct stat before, after;
	struct window w;
	uint32_t key;

	open_at(&w, 64 * MIB);
	cr_assert(w.created);
	key = w.key;
	cr_assert_eq(stat(file, &before), 0);
	window_fini(&w);
	cr_assert_eq(stat(file, &after), 0, "it is the VM's");
	open_at(&w, 64 * MIB);
	cr_assert_eq(stat(file, &after), 0);
	cr_assert_eq(before.st_ino, after.st_ino);
	cr_assert_eq(w.key, key);
	cr_assert_eq(head().key, key);
	cr_assert(w.created, "who removes it is to know that it was made here");
	window_remove(&w);
	window_fini(&w);
	cr_assert(!exists(file) && !exists(note));
}

/* A VM writes its window as it likes; that is no other daemon's key. */
Test(window, what_the_vm_wrote_is_not_believed, .init = begin, .fini = end)
{
	struct window w;
	uint32_t key;
	int fd;

	open_at(&w, 64 * MIB);
	key = w.key;
	window_fini(&w);
	fd = open(file, O_WRONLY);
	cr_assert_eq(pwrite(fd, "WEFT\1\0\0\0abcd", 12, 0), 12);
	close(fd);
	open_at(&w, 64 * MIB);
	cr_assert_eq(w.key, key);
	cr_assert_eq(head().key, key);
	window_fini(&w);
}

Test(window, another_file_gets_another_key, .init = begin, .fini = end)
{
	struct window w;
	char kept[80];
	uint32_t key;

	open_at(&w, 64 * MIB);
	key = w.key;
	window_fini(&w);
	snprintf(kept, sizeof(kept), "%s.kept",
		 file); /* so that its number is not reused */
	cr_assert_eq(rename(file, kept), 0);
	open_at(&w, 64 * MIB);
	cr_assert_neq(w.key, key);
	window_fini(&w);
	unlink(kept);
}

/* Made by somebody else, such as QEMU: never removed. */
Test(window, not_made_here, .init = begin, .fini = end)
{
	struct window w;

	close(open(file, O_WRONLY | O_CREAT, 0600));
	for (unsigned i = 0; i < 2; i++) {
		open_at(&w, 64 * MIB);
		cr_assert(!w.created);
		if (i)
			window_remove(&w);
		window_fini(&w);
		cr_assert(exists(file));
	}
	cr_assert(!exists(note));
}

Test(window, broken_notes_are_no_notes, .init = begin, .fini = end)
{
	static const char *const texts[] = {"",
					    "weft-window 1 dev 1 ino 2 key 0 created 1\n",
					    "weft-window 2",
					    "weft-window 1 dev 1 ino 2 key 3",
					    "weft-window 1 dev x ino 2 key 3 created 1\n",
					    "weft-window 1 dev 1 ino 2 key 3 created 1"};
	struct window_note n = {.key = 7};

	cr_assert_eq(window_note_read(note, &n), -ENOENT);
	for (unsigned i = 0; i < ARRAY_SIZE(texts); i++) {
		int fd = open(note, O_WRONLY | O_CREAT | O_TRUNC, 0600);

		cr_assert_eq(write(fd, texts[i], strlen(texts[i])),
			     (ssize_t)strlen(texts[i]));
		close(fd);
		cr_assert_eq(window_note_read(note, &n), -EBADMSG, "%s", texts[i]);
		cr_assert_eq(n.key, 7, "written only on success");
	}
}

Test(window, slices_run_out_and_come_back, .init = begin, .fini = end)
{
	struct msg_window s;
	struct window w;
	int slices[64];
	unsigned n = 0;

	open_at(&w, 256 * MIB);
	while ((slices[n] = window_take(&w, &s)) >= 0)
		n++;
	cr_assert_eq(n, 4);
	cr_assert_eq(slices[n], -ENOSPC);
	window_give_back(&w, slices[2]);
	cr_assert_eq(window_take(&w, &s), slices[2]);
	window_fini(&w);
}
