/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef WEFT_LIBSYSTEMD
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>
#endif

#include "base/macros.h"
#include "util/conf.h"
#include "util/journal.h"

bool journal_about(const char *text, char *ret_name, uint64_t *ret_session)
{
	static const char tenant[] = "tenant ", session[] = " session ";
	const char *name = text + strlen(tenant);
	size_t n;

	if (strncmp(text, tenant, strlen(tenant)) != 0)
		return false;
	n = strcspn(name, ": ,");
	if (!n || n > CONF_NAME_MAX || !name[n])
		return false;
	memcpy(ret_name, name, n);
	ret_name[n] = '\0';
	*ret_session = 0;
	if (conf_name_error(ret_name))
		return false;
	if (!strncmp(name + n, session, strlen(session)))
		*ret_session = strtoull(name + n + strlen(session), NULL, 10);
	return true;
}

#ifdef WEFT_LIBSYSTEMD

#define FIELDS_MAX     8
#define JOURNAL_SOCKET "/run/systemd/journal/socket"

struct fields {
	struct iovec of[FIELDS_MAX];
	int n;
	char room[4096];
	size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct fields *f, const char *fmt,
						      ...)
{
	size_t room = sizeof(f->room) - f->used;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(f->room + f->used, room, fmt, ap);
	va_end(ap);
	if (n < 0 || f->n == FIELDS_MAX || room < 2)
		return;
	f->of[f->n++] = (struct iovec){f->room + f->used, MIN((size_t)n, room - 1)};
	f->used += MIN((size_t)n, room - 1) + 1;
}

/* As syslog(3) has them. */
static const int priorities[] = {
	[LOG_LVL_ERROR] = 3,
	[LOG_LVL_WARNING] = 4,
	[LOG_LVL_INFO] = 6,
	[LOG_LVL_DEBUG] = 7,
};

/* libsystemd takes a socket that is missing for success. */
bool journal_is_there(void)
{
	return log_to_journal() && access(JOURNAL_SOCKET, W_OK) == 0;
}

bool journal_send(const struct journal_entry *e)
{
	struct fields f = {.n = 0};

	if (!journal_is_there())
		return false;
	add(&f, "MESSAGE=%s", e->text);
	add(&f, "PRIORITY=%d", priorities[e->level]);
	add(&f, "SYSLOG_IDENTIFIER=%s", e->program);
	if (e->pid)
		add(&f, "SYSLOG_PID=%d", (int)e->pid);
	if (e->tenant && *e->tenant)
		add(&f, "WEFT_TENANT=%s", e->tenant);
	if (e->session)
		add(&f, "WEFT_SESSION=%" PRIu64, e->session);
	if (e->vm_uuid && *e->vm_uuid)
		add(&f, "WEFT_VM_UUID=%s", e->vm_uuid);
	return sd_journal_sendv(f.of, f.n) == 0;
}

#else

bool journal_is_there(void)
{
	return false;
}

bool journal_send(const struct journal_entry *e)
{
	return false;
}

#endif
