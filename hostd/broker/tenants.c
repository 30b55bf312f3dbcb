/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants come and go: a tenant's socket, the listener that listens on it, and its
 * window. The socket it came in on is the only thing that says which tenant a guest
 * belongs to.
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/sockfile.h"
#include "broker/broker.h"
#include "broker/compute/tpcs.h"
#include "broker/child/cgroup.h"
#include "broker/child/child.h"
#include "broker/operator/events.h"
#include "broker/listener.h"
#include "broker/guests.h"
#include "broker/keep/books.h"
#include "broker/loop/outbox.h"
#include "broker/memory/waiters.h"
#include "broker/reply.h"
#include "broker/tenant.h"
#include "broker/tenants.h"
#include "broker/window.h"
#include "broker/workers.h"
#include "util/conf.h"
#include "util/fdstore.h"

/* Logs why a tenant cannot be made and keeps it for whoever asked; returns error. */
__attribute__((format(printf, 3, 4))) static int failed(struct broker *b, int error,
							const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(b->why, sizeof(b->why), fmt, ap);
	va_end(ap);
	log_error("%s", b->why);
	return error;
}

/* Looks up owner and group; the daemon's own where none is named. */
static int find_owner(struct broker *b, const struct conf_tenant *ct,
		      struct window_owner *ret)
{
	const struct passwd *p = ct->owner ? getpwnam(ct->owner) : NULL;
	const struct group *g = ct->group ? getgrnam(ct->group) : NULL;

	if (ct->owner && !p)
		return failed(b, -EINVAL, "tenant %s: no user \"%s\" (owner)", ct->name,
			      ct->owner);
	if (ct->group && !g)
		return failed(b, -EINVAL, "tenant %s: no group \"%s\"", ct->name,
			      ct->group);
	*ret = (struct window_owner){
		.uid = p ? p->pw_uid : geteuid(),
		.gid = g ? g->gr_gid : getegid(),
	};
	return 0;
}

/* Lets the tenant's own programs (QEMU, weft-vsock) at what is theirs. */
static int give_to(const struct conf_tenant *ct, const struct window_owner *who,
		   const char *path)
{
	if ((ct->owner || ct->group) && chown(path, ct->owner ? who->uid : (uid_t)-1,
					      ct->group ? who->gid : (gid_t)-1) < 0)
		return -errno;
	return chmod(path, ct->mode) < 0 ? -errno : 0;
}

/* Two names of one file, which weftd.conf cannot show. */
static int window_is_anothers(struct tenant *t, const char *path)
{
	struct stat mine, other;
	struct tenant *o;

	if (stat(path, &mine) < 0)
		return 0;
	list_for_each (o, &t->b->tenants, link) {
		if (o->window.fd < 0 || fstat(o->window.fd, &other) < 0 ||
		    mine.st_dev != other.st_dev || mine.st_ino != other.st_ino)
			continue;
		return failed(t->b, -EEXIST, "tenant %s: window %s is tenant %s's, too",
			      t->name, path, o->name);
	}
	return 0;
}

static int open_window(struct tenant *t, const struct conf_tenant *ct,
		       const struct window_owner *who)
{
	_cleanup_free_ char *note = NULL;
	const char *why;
	int r = window_is_anothers(t, ct->window_path);

	if (r < 0)
		return r;
	if (asprintf(&note, "%s/%s.window", t->b->conf->run_dir, t->name) < 0) {
		note = NULL;
		return -ENOMEM;
	}
	r = window_open(&t->window, ct->window_path, ct->window_size, note, who, &why);
	if (r == 0 && t->window.created)
		r = give_to(ct, who, ct->window_path);
	if (r < 0)
		return failed(t->b, r, "tenant %s: window %s: %s", t->name,
			      ct->window_path, why ? why : strerror(-r));
	return 0;
}

/* Name of the listening socket in the store. */
static void kept_name(const struct tenant *t, char buf[FDSTORE_NAME_MAX + 1])
{
	snprintf(buf, FDSTORE_NAME_MAX + 1, "tenant.%s.listen", t->name);
}

static int open_all(struct tenant *t, const struct conf_tenant *ct)
{
	struct window_owner who = {(uid_t)-1, (gid_t)-1};
	char kept[FDSTORE_NAME_MAX + 1];
	int r = find_owner(t->b, ct, &who);

	if (r < 0)
		return r;
	if (ct->socket)
		t->socket = strdup(ct->socket);
	else if (asprintf(&t->socket, "%s/%s.sock", t->b->conf->run_dir, t->name) < 0)
		t->socket = NULL;
	if (!t->socket)
		return -ENOMEM;
	if (ct->window_path)
		r = open_window(t, ct, &who);
	if (r < 0)
		return r;
	kept_name(t, kept);
	t->listen = listen_unix(t->b, t->socket, 0600, kept, &t->sockfile);
	r = t->listen < 0 ? t->listen : give_to(ct, &who, t->socket);
	if (r < 0)
		return failed(t->b, r, "tenant %s: socket %s: %s", t->name, t->socket,
			      sockfile_error(r));
	r = listener_open(t);
	if (r < 0)
		return failed(t->b, r, "tenant %s: weft-listener cannot be started: %s",
			      t->name, strerror(-r));
	return 0;
}

void tenant_remove_files(struct tenant *t)
{
	window_remove(&t->window);
	if (t->listen >= 0)
		sockfile_remove(t->socket, &t->sockfile);
}

void tenant_remove(struct tenant *t, void (*done)(void *arg), void *arg)
{
	char kept[FDSTORE_NAME_MAX + 1];
	struct worker *w;

	list_remove(&t->link);
	list_append(&t->b->leaving, &t->link);
	tpcs_due(t->b);
	t->removed = true;
	books_tenant_end(t);
	t->on_release = done;
	t->released_for = arg;
	waiters_drop_tenant(t);
	list_for_each (w, &t->workers, tenant_link)
		worker_kill(w);
	guests_refuse(t, -ESHUTDOWN);
	listener_close(t);
	if (t->listen >= 0) {
		close(fd_steal(&t->listen));
		kept_name(t, kept);
		fdstore_remove(kept);
		sockfile_remove(t->socket, &t->sockfile);
	}
	tenant_try_release(t);
}

void tenants_fini(struct broker *b)
{
	struct tenant *t, *tmp;

	list_for_each_safe (t, tmp, &b->tenants, link)
		tenant_remove(t, NULL, NULL);
	list_for_each_safe (t, tmp, &b->leaving, link) {
		child_kill(&t->listener);
		child_reap(b, &t->listener);
		tenant_try_release(t);
	}
}

static bool is_leaving(const struct broker *b, const char *name)
{
	const struct tenant *t;

	list_for_each (t, &b->leaving, link) {
		if (!strcmp(t->name, name))
			return true;
	}
	return false;
}

int tenant_new(struct broker *b, const struct conf_tenant *ct, struct tenant **ret_t)
{
	struct tenant *t;
	int r;

	snprintf(b->why, sizeof(b->why), "tenant %s: out of memory", ct->name);
	if (tenant_find(b, ct->name))
		return failed(b, -EEXIST, "tenant %s: is there already", ct->name);
	if (is_leaving(b, ct->name))
		return failed(b, -EBUSY, "tenant %s: is still being removed", ct->name);
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->b = b;
	list_init(&t->link);
	list_init(&t->shares);
	list_init(&t->workers);
	waiters_init(t);
	list_init(&t->waiting);
	list_init(&t->queue_link);
	outbox_init(&t->listener_out, b->loop, &t->listener_ctl);
	memcpy(t->name, ct->name, sizeof(t->name));
	memcpy(t->vm_uuid, ct->vm_uuid, sizeof(t->vm_uuid));
	t->output.tenant = t->name;
	t->output.vm_uuid = t->vm_uuid;
	t->memory = ct->memory;
	t->compute = ct->compute;
	t->space = ct->space;
	t->host_max = ct->host_max;
	t->wmem_max = ct->wmem_max;
	t->sessions_max = ct->sessions_max;
	t->lanes_max = ct->lanes_max;
	t->listen = t->listener.exit.fd = t->listener_ctl.fd = t->window.fd = -1;
	books_tenant_begin(t);
	cgroup_new(t);
	r = open_all(t, ct);
	if (r < 0) {
		tenant_remove(t, NULL, NULL);
		return r;
	}
	list_append(&b->tenants, &t->link);
	tpcs_due(b);
	log_info("tenant %s: %s", t->name, t->socket);
	if (ret_t)
		*ret_t = t;
	return 0;
}

void tenant_post(const struct tenant *t, const char *type, const char *by)
{
	struct json_object *e = event_new(t->b, type, t, 0);

	reply_str(e, "by", by);
	event_post(t->b, e);
}
