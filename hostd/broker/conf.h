/* SPDX-License-Identifier: Apache-2.0 */
/* weftd's configuration file and defaults; weftd.conf(5) is the manual. */
#ifndef WEFT_BROKER_CONF_H
#define WEFT_BROKER_CONF_H

#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"

#define CONF_NAME_MAX       63 /* bytes of a tenant's name */

#define CONF_WEIGHT_DEFAULT 100u
#define CONF_WEIGHT_MAX     10000u

/* Device memory in cgroup v2's words: bytes, UINT64_MAX is "max". */
struct conf_memory {
	uint64_t min, low; /* not reclaimed; reclaimed last */
	uint64_t high;     /* reclaimed above */
	uint64_t max;      /* refused above */
	uint64_t swap_max; /* of it in host memory */
	unsigned weight;   /* of its share, when there is not enough */
};

struct conf_tenant {
	struct list link;
	char name[CONF_NAME_MAX + 1];
	char *socket;        /* NULL: run_dir/NAME.sock */
	mode_t mode;         /* of the socket and of the window */
	char *owner, *group; /* likewise; NULL: the daemon's */
	struct conf_memory memory;
	uint64_t host_max; /* shared with the device */
	uint64_t wmem_max; /* held by workers */
	unsigned sessions_max;
	char *window_path; /* NULL: no window */
	uint64_t window_size;
};

struct conf {
	char *run_dir;
	char *socket;  /* of the tenant "local"; NULL: run_dir/weft.sock */
	char *control; /* NULL: run_dir/control */
	char *user;    /* workers run as; NULL: see sandbox.h */
	/* In their stead, a user for each; n 0: none. */
	uint32_t users_first, users_n;
	char *sandbox; /* on, log, off */
	char *device;  /* soft, cuda, auto */
	unsigned tpcs, threads;
	uint64_t memory; /* of the software device, at most so much of a real one; 0: all
			  */
	uint64_t host_max; /* of all tenants: shared with the device, and of workers */
	uint64_t swap;     /* host memory for what gives way; 0: nothing does */
	uint64_t reserve; /* kept free for the next; UINT64_MAX: as the device is large */
	uint64_t chunk;   /* in which it moves */
	char *placement;  /* policies/placement.h */
	unsigned pool;    /* workers kept ready */
	struct list tenants;
};

/* The defaults. Returns 0 or -ENOMEM; conf_fini() copes with either. */
int conf_init(struct conf *c);
void conf_fini(struct conf *c);

/*
 * Reads a file, or text, into c. Returns 0 or -errno; *ret_why (may be NULL) is then a
 * malloced sentence with file and line, the caller's.
 */
int conf_read(struct conf *c, const char *path, char **ret_why);
int conf_parse(struct conf *c, const char *text, char **ret_why);

/* Letters, digits, '.', '_' and '-', not first a dot, at most CONF_NAME_MAX. */
int conf_name_check(const char *name);

/* A tenant with defaults, not yet in a list; the caller's. NULL: no memory. */
struct conf_tenant *conf_tenant_new(const char *name);
void conf_tenant_free(struct conf_tenant *t);

/*
 * A key of a tenant's memory in bytes that can be set (memory.min, memory.low,
 * memory.high, memory.max, memory.swap.max), or NULL.
 */
uint64_t *conf_memory_key(struct conf_memory *m, const char *key);
/* The names of these keys, in order; NULL at the end. */
extern const char *const conf_memory_keys[];

/* Sets one key of a tenant, as the file does. Returns 0, -ENOENT (no such key), -EINVAL,
 * -ENOMEM. */
int conf_tenant_set(struct conf_tenant *t, const char *key, const char *value);

/* Sets one key of [daemon]; likewise. */
int conf_daemon_set(struct conf *c, const char *key, const char *value);

#endif
