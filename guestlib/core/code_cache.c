/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOC: memory first, then a file
 *
 * A file is a header and the code. Its name is the key, so processes agree without an
 * index. Files are read whole and checked (length, key, XXH3 of the code) before any of
 * it is used. What was read some minutes ago gets a new time of change, so that the
 * oldest are those that nobody wants.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/fd.h"
#include "base/macros.h"
#include "core/code_cache.h"

#define FILE_MAGIC "weftcc1"
/* The driver's defaults since release 535: 1 GiB, and at most 4 GiB. */
#define DISK_DEFAULT ((uint64_t)1 << 30)
#define DISK_MAX     ((uint64_t)4 << 30)
/* Larger code is compiled each time. */
#define ENTRY_MAX ((size_t)256 << 20)
/* Code that one process keeps in memory, for what it compiles again and for guests
 * without a disk. */
#define MEMORY_MAX   ((size_t)32 << 20)
#define MEMORY_SLOTS 256u
/* Age that a file's time may reach before a reader renews it. */
#define RENEW_S 300
/* Age of a file that a writer has left which died; one that lives is done long before. */
#define STALE_S 3600

struct file_header {
	char magic[8];
	struct code_key key;
	uint64_t size; /* bytes that follow */
	uint64_t sum;  /* XXH3 of them */
};

struct entry {
	struct code_key key;
	void *data; /* NULL: the slot is free */
	size_t size;
};

static struct {
	pthread_once_t once;
	bool enabled;
	char dir[PATH_MAX - 64]; /* empty: no disk */
	uint64_t disk_max;

	pthread_mutex_t lock; /* for what follows */
	struct entry slots[MEMORY_SLOTS];
	size_t bytes;
	uint64_t disk_bytes; /* of all files, as far as this process knows */
	bool disk_known;
} cache = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static void lock(void)
{
	pthread_mutex_lock(&cache.lock);
}

static void unlock(void)
{
	pthread_mutex_unlock(&cache.lock);
}

static uint64_t disk_limit(void)
{
	const char *text = getenv("CUDA_CACHE_MAXSIZE");
	char *end;
	unsigned long long n;

	if (!text || *text < '0' || *text > '9')
		return DISK_DEFAULT;
	n = strtoull(text, &end, 10);
	return *end ? DISK_DEFAULT : MIN((uint64_t)n, DISK_MAX);
}

static void find_dir(void)
{
	const char *path = getenv("CUDA_CACHE_PATH"), *home = getenv("HOME");
	int n = 0;

	if (path && *path)
		n = snprintf(cache.dir, sizeof(cache.dir), "%s/weft", path);
	else if (home && *home == '/')
		n = snprintf(cache.dir, sizeof(cache.dir), "%s/.nv/ComputeCache/weft",
			     home);
	if (n < 0 || (size_t)n >= sizeof(cache.dir))
		cache.dir[0] = '\0';
}

static void init(void)
{
	const char *off = getenv("CUDA_CACHE_DISABLE");

	cache.enabled = !off || strcmp(off, "1") != 0;
	cache.disk_max = disk_limit();
	find_dir();
	if (!cache.disk_max)
		cache.dir[0] = '\0';
	pthread_atfork(lock, unlock, unlock);
}

bool code_cache_enabled(void)
{
	pthread_once(&cache.once, init);
	return cache.enabled;
}

struct code_key code_key_of(const struct code_part *parts, unsigned n)
{
	XXH3_state_t s;
	XXH128_hash_t h;

	XXH3_128bits_reset(&s);
	for (unsigned i = 0; i < n; i++) {
		uint64_t size = parts[i].size;

		XXH3_128bits_update(&s, &size, sizeof(size));
		XXH3_128bits_update(&s, parts[i].data, parts[i].size);
	}
	h = XXH3_128bits_digest(&s);
	return (struct code_key){{h.low64, h.high64}};
}

/* ---- in memory ---- */

static struct entry *slot_of(const struct code_key *key)
{
	return &cache.slots[key->word[0] % MEMORY_SLOTS];
}

static bool is_key(const struct code_key *a, const struct code_key *b)
{
	return a->word[0] == b->word[0] && a->word[1] == b->word[1];
}

static void forget_locked(struct entry *e)
{
	cache.bytes -= e->size;
	free(e->data);
	*e = (struct entry){.data = NULL};
}

static void *copy_of(const void *data, size_t size)
{
	void *copy = malloc(size);

	return copy ? memcpy(copy, data, size) : NULL;
}

static int recall(const struct code_key *key, void **ret_data, size_t *ret_size)
{
	struct entry *e = slot_of(key);
	int r = -ENOENT;

	lock();
	if (e->data && is_key(&e->key, key)) {
		void *copy = copy_of(e->data, e->size);

		r = copy ? 0 : -ENOMEM;
		if (copy) {
			*ret_data = copy;
			*ret_size = e->size;
		}
	}
	unlock();
	return r;
}

static void remember(const struct code_key *key, const void *data, size_t size)
{
	struct entry *e = slot_of(key);
	void *copy;

	if (size > MEMORY_MAX / 4)
		return;
	copy = copy_of(data, size);
	if (!copy)
		return;
	lock();
	forget_locked(e);
	for (unsigned i = 0; cache.bytes + size > MEMORY_MAX && i < MEMORY_SLOTS; i++)
		forget_locked(&cache.slots[i]);
	*e = (struct entry){*key, copy, size};
	cache.bytes += size;
	unlock();
}

/* ---- on disk ---- */

static void file_name(const struct code_key *key, char *buf, size_t room)
{
	snprintf(buf, room, "%s/%016llx%016llx", cache.dir,
		 (unsigned long long)key->word[1], (unsigned long long)key->word[0]);
}

static bool header_ok(const struct file_header *h, const struct code_key *key,
		      uint64_t file_size)
{
	return memcmp(h->magic, FILE_MAGIC, sizeof(h->magic)) == 0 &&
	       is_key(&h->key, key) && h->size && h->size <= ENTRY_MAX &&
	       file_size == sizeof(*h) + h->size;
}

static void renew(int fd, const struct stat *st)
{
	if (time(NULL) - st->st_mtime > RENEW_S)
		(void)futimens(fd, NULL);
}

/* Returns 0, -ENOMEM, or -EBADMSG for a file that is not what its name says. */
static int read_file(int fd, const struct code_key *key, void **ret_data,
		     size_t *ret_size)
{
	_cleanup_free_ void *data = NULL;
	struct file_header h;
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    fd_read_full(fd, &h, sizeof(h)) < 0 ||
	    !header_ok(&h, key, (uint64_t)st.st_size))
		return -EBADMSG;
	data = malloc(h.size);
	if (!data)
		return -ENOMEM;
	if (fd_read_full(fd, data, h.size) < 0 || XXH3_64bits(data, h.size) != h.sum)
		return -EBADMSG;
	renew(fd, &st);
	*ret_size = h.size;
	*ret_data = steal(data);
	return 0;
}

static int load(const struct code_key *key, void **ret_data, size_t *ret_size)
{
	_cleanup_close_ int fd = -1;
	char name[PATH_MAX];
	int r;

	if (!cache.dir[0])
		return -ENOENT;
	file_name(key, name, sizeof(name));
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -ENOENT;
	r = read_file(fd, key, ret_data, ret_size);
	if (r != -EBADMSG)
		return r;
	unlink(name);
	return -ENOENT;
}

/* Makes the folder and those above it, for this user alone. */
static bool make_dir(void)
{
	char path[sizeof(cache.dir)];

	memcpy(path, cache.dir, sizeof(path));
	for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		(void)mkdir(path, 0700);
		*p = '/';
	}
	return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool write_file(const char *name, const struct code_key *key, const void *data,
		       size_t size)
{
	struct file_header h = {
		.magic = FILE_MAGIC,
		.key = *key,
		.size = size,
		.sum = XXH3_64bits(data, size),
	};
	char temp[PATH_MAX];
	bool ok;
	int fd;

	if ((size_t)snprintf(temp, sizeof(temp), "%s/.new-XXXXXX", cache.dir) >=
	    sizeof(temp))
		return false;
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0)
		return false;
	ok = fd_write_full(fd, &h, sizeof(h)) == 0 && fd_write_full(fd, data, size) == 0;
	ok &= close(fd) == 0;
	if (ok && rename(temp, name) == 0)
		return true;
	unlink(temp);
	return false;
}

struct aged {
	char name[33];
	time_t time;
	uint64_t bytes;
};

static int by_age(const void *a, const void *b)
{
	const struct aged *x = a, *y = b;

	return (x->time > y->time) - (x->time < y->time);
}

static bool is_entry(const char *name)
{
	return strlen(name) == 32 && strspn(name, "0123456789abcdef") == 32;
}

/* One file of the folder: into the list, or away if a dead writer left it. */
static void look_at(DIR *d, const char *name, struct aged **list, size_t *n, size_t *room)
{
	struct stat st;
	void *more;

	if (fstatat(dirfd(d), name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return;
	if (!is_entry(name)) {
		if (!strncmp(name, ".new-", 5) && time(NULL) - st.st_mtime > STALE_S)
			unlinkat(dirfd(d), name, 0);
		return;
	}
	if (*n == *room) {
		more = realloc(*list, (*room * 2 + 64) * sizeof(**list));
		if (!more)
			return;
		*list = more;
		*room = *room * 2 + 64;
	}
	(*list)[*n] = (struct aged){.time = st.st_mtime, .bytes = (uint64_t)st.st_size};
	memcpy((*list)[(*n)++].name, name, 33);
}

/* Counts the files, and removes the oldest until an eighth of the limit is free. */
static uint64_t trim(void)
{
	_cleanup_free_ struct aged *list = NULL;
	size_t n = 0, room = 0;
	uint64_t bytes = 0;
	struct dirent *e;
	DIR *d = opendir(cache.dir);

	if (!d)
		return 0;
	while ((e = readdir(d)))
		look_at(d, e->d_name, &list, &n, &room);
	for (size_t i = 0; i < n; i++)
		bytes += list[i].bytes;
	if (bytes > cache.disk_max) {
		qsort(list, n, sizeof(*list), by_age);
		for (size_t i = 0; i < n && bytes > cache.disk_max / 8 * 7; i++) {
			if (unlinkat(dirfd(d), list[i].name, 0) == 0)
				bytes -= list[i].bytes;
		}
	}
	closedir(d);
	return bytes;
}

static void count_file(size_t size)
{
	bool look;
	uint64_t bytes;

	lock();
	cache.disk_bytes += sizeof(struct file_header) + size;
	look = !cache.disk_known || cache.disk_bytes > cache.disk_max;
	unlock();
	if (!look)
		return;
	bytes = trim();
	lock();
	cache.disk_bytes = bytes;
	cache.disk_known = true;
	unlock();
}

static void store(const struct code_key *key, const void *data, size_t size)
{
	char name[PATH_MAX];

	if (!cache.dir[0] || sizeof(struct file_header) + size > cache.disk_max)
		return;
	file_name(key, name, sizeof(name));
	if (!write_file(name, key, data, size) &&
	    (!make_dir() || !write_file(name, key, data, size)))
		return;
	count_file(size);
}

/* ---- both ---- */

int code_cache_get(const struct code_key *key, void **ret_data, size_t *ret_size)
{
	int r;

	if (!code_cache_enabled())
		return -ENOENT;
	r = recall(key, ret_data, ret_size);
	if (r != -ENOENT)
		return r;
	r = load(key, ret_data, ret_size);
	if (r == 0)
		remember(key, *ret_data, *ret_size);
	return r;
}

void code_cache_put(const struct code_key *key, const void *data, size_t size)
{
	if (!code_cache_enabled() || !size || size > ENTRY_MAX)
		return;
	remember(key, data, size);
	store(key, data, size);
}

void code_cache_drop(const struct code_key *key)
{
	struct entry *e = slot_of(key);
	char name[PATH_MAX];

	if (!code_cache_enabled())
		return;
	lock();
	if (e->data && is_key(&e->key, key))
		forget_locked(e);
	unlock();
	if (cache.dir[0]) {
		file_name(key, name, sizeof(name));
		unlink(name);
	}
}
