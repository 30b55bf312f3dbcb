/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "libvirt/note.h"
#include "libvirt/place.h"
#include "libvirt/sentence.h"

#define SUFFIX ".json"
#define FRESH  ".new" /* of a UUID: one that is being written */
/* Given out from here: lower ones are people's and libvirt's own devices'. */
#define CID_FIRST 1000u

static char *notes_dir(char *buf, size_t room)
{
	snprintf(buf, room, "%s/libvirt", PLACE_RUN);
	return buf;
}

char *note_path(const char *tenant, const char *suffix, char *buf, size_t room)
{
	snprintf(buf, room, "%s/libvirt/%s%s", PLACE_RUN, tenant, suffix);
	return buf;
}

void note_fini(struct note *n)
{
	free(n->domain);
	json_object_put(n->set);
	*n = (struct note){0};
}

/* ---- one note ---- */

static const char *member(struct json_object *o, const char *key)
{
	struct json_object *v;

	return json_object_object_get_ex(o, key, &v) ? json_object_get_string(v) : "";
}

static int parse(struct json_object *o, struct note *ret)
{
	struct json_object *v = NULL;
	struct note n = {0};

	snprintf(n.tenant, sizeof(n.tenant), "%s", member(o, "tenant"));
	snprintf(n.uuid, sizeof(n.uuid), "%s", member(o, "uuid"));
	if (json_object_object_get_ex(o, "cid", &v))
		n.cid = (uint32_t)json_object_get_int64(v);
	if (json_object_object_get_ex(o, "ended", &v))
		n.ended = json_object_get_boolean(v);
	if (!json_object_object_get_ex(o, "set", &v) || !*n.tenant || !*n.uuid || !n.cid)
		return -EBADMSG;
	n.domain = strdup(member(o, "domain"));
	n.set = json_object_get(v);
	*ret = n;
	return 0;
}

static int read_file(const char *path, struct note *ret)
{
	struct json_object *o;
	int r;

	*ret = (struct note){0};
	if (access(path, R_OK) < 0)
		return -errno;
	o = json_object_from_file(path);
	if (!o)
		return -EBADMSG;
	r = parse(o, ret);
	json_object_put(o);
	return r;
}

int note_of_tenant(const char *tenant, struct note *ret)
{
	char path[160];

	return read_file(note_path(tenant, SUFFIX, path, sizeof(path)), ret);
}

int note_write(const struct note *n)
{
	struct json_object *o = json_object_new_object();
	char path[160], fresh[160];
	int r;

	json_object_object_add(o, "tenant", json_object_new_string(n->tenant));
	json_object_object_add(o, "uuid", json_object_new_string(n->uuid));
	json_object_object_add(o, "domain", json_object_new_string(n->domain));
	json_object_object_add(o, "cid", json_object_new_int64(n->cid));
	json_object_object_add(o, "ended", json_object_new_boolean(n->ended));
	json_object_object_add(o, "set", json_object_get(n->set));
	note_path(n->tenant, SUFFIX, path, sizeof(path));
	note_path(n->uuid, FRESH, fresh, sizeof(fresh));
	r = json_object_to_file_ext(fresh, o, JSON_C_TO_STRING_NOSLASHESCAPE) < 0 ? -EIO
										  : 0;
	json_object_put(o);
	if (r == 0 && rename(fresh, path) < 0)
		r = -errno;
	return r;
}

void note_forget(const struct note *n)
{
	char path[160];

	unlink(note_path(n->tenant, SUFFIX, path, sizeof(path)));
}

void note_discard(const char *uuid)
{
	char path[160];

	unlink(note_path(uuid, FRESH, path, sizeof(path)));
}

void note_clear(const struct note *n)
{
	static const char *const beside[] = {".lock", ".log", ".notify"};
	char path[160];

	for (unsigned i = 0; i < ARRAY_SIZE(beside); i++)
		unlink(note_path(n->tenant, beside[i], path, sizeof(path)));
}

/* ---- all of them ---- */

void note_each(void (*fn)(const struct note *n, void *arg), void *arg)
{
	char path[320];
	DIR *d = opendir(notes_dir(path, sizeof(path)));
	struct dirent *e;

	while (d && (e = readdir(d))) {
		const char *end = strrchr(e->d_name, '.');
		struct note n;

		if (!end || strcmp(end, SUFFIX) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/libvirt/%s", PLACE_RUN, e->d_name);
		if (read_file(path, &n) == 0)
			fn(&n, arg);
		note_fini(&n);
	}
	if (d)
		closedir(d);
}

struct search {
	const char *uuid;
	uint32_t cid;
	bool found;
	struct note *ret; /* may be NULL */
};

static void look(const struct note *n, void *arg)
{
	struct search *s = arg;

	if (s->found || (s->uuid && strcmp(s->uuid, n->uuid) != 0) ||
	    (s->cid && (s->cid != n->cid || n->ended)))
		return;
	s->found = true;
	if (s->ret)
		(void)note_of_tenant(n->tenant, s->ret);
}

int note_of_uuid(const char *uuid, struct note *ret)
{
	struct search s = {.uuid = uuid, .ret = ret};

	*ret = (struct note){0};
	note_each(look, &s);
	return *ret->tenant ? 0 : -ENOENT;
}

/* ---- a new one ---- */

/* The lock of all notes, for as long as the descriptor is open. */
static int lock_notes(void)
{
	char path[160];
	_cleanup_close_ int fd = -1;

	if (mkdir(notes_dir(path, sizeof(path)), 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = open(note_path("", "lock", path, sizeof(path)),
		  O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		return -errno;
	return fd_steal(&fd);
}

static int choose_cid(const struct domain *d, struct note *n, char **ret_why)
{
	struct note other = {0};
	struct search s = {.cid = d->gpu.cid, .ret = &other};

	if (d->gpu.cid) {
		note_each(look, &s);
		if (s.found)
			*ret_why = sentence("CID %u is domain %s's: choose another in "
					    "<weft:vsock>, or leave it out",
					    s.cid, other.domain ? other.domain : "?");
		note_fini(&other);
		n->cid = d->gpu.cid;
		return s.found ? -EEXIST : 0;
	}
	for (n->cid = CID_FIRST;; n->cid++) {
		struct search free_one = {.cid = n->cid};

		note_each(look, &free_one);
		if (!free_one.found)
			return 0;
	}
}

static int take_locked(const struct domain *d, struct note *n, char **ret_why)
{
	int r = note_of_tenant(d->tenant, n);

	if (r == 0 && !n->ended && strcmp(n->uuid, d->uuid) != 0) {
		*ret_why = sentence("tenant %s is domain %s's (%s): name another by "
				    "<weft:gpu tenant='...'>",
				    d->tenant, n->domain, n->uuid);
		return -EEXIST;
	}
	if (r == 0 && !n->ended && (!d->gpu.cid || d->gpu.cid == n->cid))
		return 0;
	note_fini(n);
	snprintf(n->tenant, sizeof(n->tenant), "%s", d->tenant);
	memcpy(n->uuid, d->uuid, sizeof(n->uuid));
	n->domain = strdup(d->name);
	n->set = json_object_new_object();
	if (!n->domain || !n->set)
		return -ENOMEM;
	r = choose_cid(d, n, ret_why);
	return r < 0 ? r : note_write(n);
}

int note_take(const struct domain *d, struct note *ret, char **ret_why)
{
	_cleanup_close_ int lock = -1;

	*ret = (struct note){0};
	*ret_why = NULL;
	lock = lock_notes();
	if (lock < 0) {
		*ret_why = sentence("weftd does not run (%s: %s): systemctl start weftd",
				    PLACE_RUN, strerror(-lock));
		return lock;
	}
	return take_locked(d, ret, ret_why);
}
