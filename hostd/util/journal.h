/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal's own protocol, for fields beside a message: PRIORITY, SYSLOG_IDENTIFIER, and
 * of what it is about WEFT_TENANT, WEFT_SESSION and WEFT_VM_UUID. Built with libsystemd;
 * without it, or where nobody reads, all functions say false.
 */
#ifndef WEFT_UTIL_JOURNAL_H
#define WEFT_UTIL_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/log.h"

struct journal_entry {
	enum log_level level;
	const char *program;
	pid_t pid; /* of the program, if it is not us; else 0 */
	const char *text;
	const char *tenant;  /* NULL or "": about none */
	uint64_t session;    /* 0: about none */
	const char *vm_uuid; /* NULL or "": not known */
};

/* Whether entries can be sent: stderr is the journal's, and libsystemd is there. */
bool journal_is_there(void);
/* Sends an entry. Returns false if it did not arrive: the caller writes it elsewhere. */
bool journal_send(const struct journal_entry *e);

/*
 * Finds out what a message of weftd's own is about, by how it begins: "tenant NAME" or
 * "tenant NAME session N", after which something else than a name goes on. name has room
 * for CONF_NAME_MAX + 1 bytes. Returns false: about no tenant.
 */
bool journal_about(const char *text, char *ret_name, uint64_t *ret_session);

#endif
