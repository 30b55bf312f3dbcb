/* SPDX-License-Identifier: Apache-2.0 */
/* weftd's configuration file and defaults; weftd.conf(5) is the manual. */
#ifndef WEFT_UTIL_CONF_H
#define WEFT_UTIL_CONF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "policies/cap.h"
#include "policies/space.h"

#define CONF_NAME_MAX       63 /* bytes of a tenant's name */
#define CONF_UUID_LEN       36 /* 8-4-4-4-12 hexadecimal digits */
#define CONF_PROFILE_MAX    47
#define CONF_LOCAL          "local" /* the tenant of programs on this machine */

#define CONF_WEIGHT_DEFAULT 100u
#define CONF_WEIGHT_MAX     10000u
#define CONF_LATENCY_MAX    3600000000u /* an hour */
#define CONF_PRIORITY_MAX   100u

/* Device memory in cgroup v2's words: bytes, UINT64_MAX is "max". */
struct conf_memory {
	uint64_t min, low; /* not reclaimed; reclaimed last */
	uint64_t high;     /* reclaimed above */
	uint64_t max;      /* refused above */
	uint64_t swap_max; /* of it in host memory */
	unsigned weight;   /* of its share, when there is not enough */
};

/* kernel.rewrite: which kernels run as persistent threads. */
enum conf_rewrite {
	CONF_REWRITE_DEFAULT, /* of a tenant: as [daemon] has it */
	CONF_REWRITE_OFF,
	CONF_REWRITE_SHARE,
	CONF_REWRITE_ALWAYS,
	CONF_REWRITE_AUTO,
	CONF_REWRITE_YIELD,
	CONF_REWRITE_ALWAYS_YIELD,
};

/* graphics: whether a tenant's programs may draw. */
enum conf_graphics {
	CONF_GRAPHICS_DEFAULT, /* if its memory has a limit, memory.max */
	CONF_GRAPHICS_OFF,
	CONF_GRAPHICS_ON,
};

/* Time on the device, and what for. */
struct conf_compute {
	unsigned weight;   /* of its share, while several want it */
	unsigned priority; /* more is more urgent */
	unsigned latency;  /* compute.latency: longest wait for a turn, in us; 0: any */
	struct cap max;    /* compute.max */
	bool shared;       /* compute.class: side by side with others of that class */
	enum conf_rewrite rewrite;
	enum conf_graphics graphics;
};

/* A place in a file. file: its path, which stays until the process ends; NULL: in none. */
struct conf_at {
	const char *file;
	int line;
};

#define CONF_MEMORY_KEYS 5 /* conf_memory_keys[] */

struct conf_tenant {
	struct list link;
	char name[CONF_NAME_MAX + 1];
	char vm_uuid[CONF_UUID_LEN + 1]; /* the virtual machine's; "": not known */
	/* Where it is; again: the last further section of that file. */
	struct conf_at at, again_at, socket_at, window_at, uuid_at;
	struct conf_at memory_at[CONF_MEMORY_KEYS], space_at;
	bool added;          /* at the control socket */
	char *socket;        /* NULL: run_dir/NAME.sock */
	mode_t mode;         /* of the socket and of the window */
	char *owner, *group; /* likewise; NULL: the daemon's */
	struct conf_memory memory;
	struct conf_compute compute;
	struct space_want space;
	/* Name of the profile that has this memory, until it is changed; "": none.
	 * conf_alias.h */
	char profile[CONF_PROFILE_MAX + 1];
	uint64_t host_max; /* shared with the device */
	uint64_t wmem_max; /* held by workers */
	unsigned sessions_max, lanes_max;
	char *window_path; /* NULL: no window */
	uint64_t window_size;
};

struct conf {
	char *run_dir;
	char *socket;          /* of the tenant "local"; NULL: run_dir/weft.sock */
	char *control;         /* NULL: run_dir/control */
	char *operators;       /* group that may use it; NULL: none */
	char *viewers;         /* group that may look; NULL: none */
	uint64_t device_total; /* memory of the device once that is known, else 0 */
	struct space_map space; /* its TPCs, likewise, if kernels can be kept to some */
	bool space_known;
	struct conf_at socket_at, control_at;
	unsigned n_dropins; /* files that were read beside the first */
	char *text;         /* of all files that were read, as one; NULL: none was */
	char *user;         /* workers run as; NULL: see sandbox.h */
	/* In their stead, a user for each; n 0: none. */
	uint32_t users_first, users_n;
	char *sandbox; /* on, log, off */
	char *cgroup;  /* a path, or "none"; NULL: our own if it was delegated */
	char *device;  /* soft, cuda, auto */
	unsigned tpcs, threads;
	uint64_t memory; /* of the software device, at most so much of a real one; 0: all
			  */
	uint64_t host_max; /* of all tenants: shared with the device, and of workers */
	uint64_t swap;     /* host memory for what is evicted; 0: nothing does */
	uint64_t reserve; /* kept free for the next; UINT64_MAX: as the device is large */
	uint64_t piece;   /* in which it moves */
	enum conf_rewrite rewrite; /* of tenants that do not say */
	unsigned kill_s;  /* reclaim.kill, seconds; 0: never */
	char *placement;  /* policies/placement.h */
	char *time;       /* policies/time.h */
	char *blocks;     /* policies/blocks.h */
	char *extents;    /* file that says where kernels reach memory; NULL: none */
	char *mps;        /* where the control daemon of MPS listens; NULL: nowhere */
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
/*
 * Reads a file, if it is there or has to be, and then the drop-ins beside it: files *.conf
 * in the directory PATH.d, in the order of their names. What is later goes before what is
 * earlier. Returns as conf_read().
 */
int conf_read_all(struct conf *c, const char *path, bool must_exist, char **ret_why);

/* Says what is wrong with a tenant's name, or NULL: it is one. */
const char *conf_name_error(const char *name);

/* Says why conf_tenant_set() or conf_daemon_set() gave that error; malloced, or NULL. */
char *conf_error(const char *key, const char *value, int error);

/*
 * Fills in what follows from other keys: the tenant "local", and where sockets are that
 * have no key. Returns 0 or -ENOMEM.
 */
int conf_complete(struct conf *c);

/*
 * Looks for contradictions in a complete configuration: says each to fn, with its file and
 * line, if it is in one, or that file (which may be NULL), as wrong or as a warning.
 * Returns how many are wrong.
 */
unsigned conf_check(const struct conf *c, const char *file,
		    void (*fn)(void *arg, bool wrong, const char *text), void *arg);

struct conf_tenant *conf_tenant_find(const struct conf *c, const char *name);
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

/* A class as compute.class has it: "isolated" or "shared". A constant. */
const char *conf_format_class(bool shared);

/* As kernel.rewrite has it: "default", "off", "yield", "share", "auto" and so on. A constant. */
const char *conf_format_rewrite(enum conf_rewrite r);
/* As graphics has it: "default", "off", "on". A constant. */
const char *conf_format_graphics(enum conf_graphics g);

/* A cap as compute.max has it: "max", or quota and period. Returns text. */
const char *conf_format_cap(const struct cap *c, char *text, size_t size);
#define CONF_CAP_TEXT 32

/* Whether a key says which TPCs a tenant has: tpc.set, gpc.set, tpc.count, tpc.exclusive. */
bool conf_is_space_key(const char *key);

/* Sets one key of a tenant, as the file does. Returns 0, -ENOENT (no such key), -EINVAL,
 * -ERANGE, -EOPNOTSUPP (conf_alias.h) or -ENOMEM. */
int conf_tenant_set(struct conf_tenant *t, const char *key, const char *value);

/* Sets one key of [daemon]; likewise. */
int conf_daemon_set(struct conf *c, const char *key, const char *value);

#endif
