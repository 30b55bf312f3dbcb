/* SPDX-License-Identifier: Apache-2.0 */
/* weft-vsock: the vsock device of one VM. */
#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/sockfile.h"
#include "connector.h"
#include "handover.h"
#include "supervisor.h"
#include "server.h"
#include "util/notify.h"
#include "util/sandbox.h"

/* CIDs below are taken by virtio; the top value means "any". */
#define CID_MIN 3u
#define CID_MAX 0xfffffffeu

/* Descriptors that are opened before rights are given up, for the first server. */
enum {
	FD_LISTEN,   /* where QEMU connects */
	FD_FRONT,    /* QEMU */
	FD_HANDOVER, /* where a successor asks */
	FD_TAKEOVER, /* who is followed */
	FD_NUM,
};

struct options {
	const char *socket;
	const char *connect;
	const char *handover;
	const char *takeover;
	const char *group;
	const char *user;
	mode_t mode;
	uint64_t cid;
	int grace_ms; /* -1: the default */
	enum sandbox_mode sandbox;
	struct forward forward;
	struct server_note *notes;
	int fds[FD_NUM]; /* -1: none */
	int connector_fd;
};

static const char usage_text[] =
	"Usage: weft-vsock --socket PATH --cid N [--forward [PORT=]UNIXPATH]...\n"
	"The vsock device of one VM, for QEMU's vhost-user-vsock-pci.\n\n"
	"  --socket PATH        listen for QEMU here\n"
	"  --connect PATH       connect to QEMU, which listens here, instead\n"
	"  --cid N              the guest's context identifier, 3 or more\n"
	"  --forward PORT=PATH  host port PORT is the Unix socket PATH (default port "
	"22887)\n"
	"  --handover PATH      give everything to a successor that asks here\n"
	"  --takeover PATH      take everything from the process that offers it there\n"
	"  --socket-mode MODE   of PATH, octal (0600)\n"
	"  --socket-group NAME  of PATH\n"
	"  --pause-grace MS     a stopped device keeps its connections so long (500)\n"
	"  --user NAME|UID:GID  run as, if started by root (weft or nobody)\n"
	"  --no-sandbox         allow every system call\n"
	"  --version\n"
	"  --help\n";

static int parse_u64(const char *text, int base, uint64_t max, uint64_t *ret)
{
	char *end;
	unsigned long long v;

	errno = 0;
	v = strtoull(text, &end, base);
	if (errno || end == text || *end || *text == '-' || v > max)
		return -EINVAL;
	*ret = v;
	return 0;
}

static int make_socket(const struct options *o)
{
	struct sockaddr_un a;
	const char *path = o->connect ? o->connect : o->socket;
	_cleanup_close_ int fd = -1;
	mode_t old;
	int r = sockfile_address(path, &a);

	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (o->connect) {
		if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
			return -errno;
		return fd_steal(&fd);
	}
	r = sockfile_clear(path, false);
	if (r < 0)
		return r;
	old = umask(0177);
	r = bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : 0;
	umask(old);
	if (r < 0)
		return r;
	if (o->group) {
		struct group *g = getgrnam(o->group);

		if (!g)
			return -ENOENT;
		if (chown(path, (uid_t)-1, g->gr_gid) < 0)
			return -errno;
	}
	if (chmod(path, o->mode) < 0 || listen(fd, SOMAXCONN) < 0)
		return -errno;
	return fd_steal(&fd);
}

/* Opens sockets that need the rights of the user who started us. */
static int open_sockets(struct options *o)
{
	int *fd = o->fds;
	int r;

	if (o->takeover) {
		r = handover_ask(o->takeover);
		if (r < 0) {
			log_error("taking over from %s: %s", o->takeover, strerror(-r));
			return r;
		}
		fd[FD_TAKEOVER] = r;
		return 0;
	}
	r = make_socket(o);
	if (r < 0) {
		log_error("%s: %s", o->socket ? o->socket : o->connect,
			  o->socket ? sockfile_error(r) : strerror(-r));
		return r;
	}
	fd[o->connect ? FD_FRONT : FD_LISTEN] = r;
	if (!o->handover)
		return 0;
	r = handover_listen(o->handover);
	if (r < 0) {
		log_error("%s: %s", o->handover, sockfile_error(r));
		return r;
	}
	fd[FD_HANDOVER] = r;
	return 0;
}

/* First start: nobody has anything for us. */
static int use_sockets(struct server *s, struct options *o)
{
	s->listen_fd = fd_steal(&o->fds[FD_LISTEN]);
	s->handover_fd = fd_steal(&o->fds[FD_HANDOVER]);
	if (o->fds[FD_FRONT] < 0)
		return 0;
	vu_attach(&s->dev.vu, fd_steal(&o->fds[FD_FRONT]));
	return fd_set_nonblock(s->dev.vu.fd, 1);
}

/* Connections that a crashed server had: the guest must not wait for them. */
static int reset_noted(struct server *s)
{
	for (unsigned i = 0; i < CONN_MAX; i++) {
		struct server_note n = s->notes[i];
		struct conn *c;

		s->notes[i].used = 0;
		if (!n.used || conn_find(&s->dev.conns, n.guest_port, n.host_port))
			continue;
		c = conn_new(&s->dev.conns, n.guest_port, n.host_port);
		if (c)
			vsock_conn_reset(&s->dev, c);
	}
	return 0;
}

static int prepare(struct server *s, struct options *o, int state_fd)
{
	int r;

	if (state_fd >= 0) {
		r = handover_receive(s, state_fd, true);
		return r < 0 ? r : reset_noted(s);
	}
	if (o->fds[FD_TAKEOVER] < 0)
		return use_sockets(s, o);
	r = handover_take(s, o->fds[FD_TAKEOVER]);
	close(fd_steal(&o->fds[FD_TAKEOVER]));
	if (r < 0)
		log_error("taking over from %s: %s", o->takeover, strerror(-r));
	return r;
}

/* Rights, files and limits are the supervisor's. */
static int confine(const struct options *o)
{
	const struct sandbox box = {.kind = SANDBOX_VSOCK};

	return o->sandbox == SANDBOX_OFF || sandbox_sanitized() ? 0 : sandbox_calls(&box);
}

static int serve(void *ctx, int keep_fd, int state_fd)
{
	struct options *o = ctx;
	struct server *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return EXIT_FAILURE;
	r = server_init(s, o->cid);
	s->connector_fd = o->connector_fd;
	s->supervisor_fd = keep_fd;
	s->notes = o->notes;
	if (o->grace_ms >= 0)
		s->grace_ms = (unsigned)o->grace_ms;
	if (r == 0)
		r = confine(o);
	if (r == 0)
		r = prepare(s, o, state_fd);
	if (r == 0)
		r = server_start(s);
	closep(&state_fd);
	if (r == 0)
		r = server_run(s);
	if (r < 0)
		log_error("%s", strerror(-r));
	/* Handed-over connections live on: descriptors are closed, nothing shut down. */
	_exit(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

enum option_id {
	OPT_SOCKET = 256,
	OPT_CONNECT,
	OPT_CID,
	OPT_FORWARD,
	OPT_HANDOVER,
	OPT_TAKEOVER,
	OPT_MODE,
	OPT_GROUP,
	OPT_GRACE,
	OPT_USER,
	OPT_NO_SANDBOX,
	OPT_VERSION,
	OPT_HELP,
};

static int set_option(struct options *o, int id, const char *arg)
{
	uint64_t v = 0;
	int r = 0;

	switch (id) {
	case OPT_SOCKET:
		o->socket = arg;
		break;
	case OPT_CONNECT:
		o->connect = arg;
		break;
	case OPT_CID:
		r = parse_u64(arg, 10, CID_MAX, &o->cid);
		if (r == 0 && o->cid < CID_MIN)
			r = -EINVAL;
		break;
	case OPT_FORWARD:
		r = forward_add(&o->forward, arg);
		break;
	case OPT_HANDOVER:
		o->handover = arg;
		break;
	case OPT_TAKEOVER:
		o->takeover = arg;
		break;
	case OPT_MODE:
		r = parse_u64(arg, 8, 0777, &v);
		o->mode = (mode_t)v;
		break;
	case OPT_GROUP:
		o->group = arg;
		break;
	case OPT_GRACE:
		r = parse_u64(arg, 10, 1u << 30, &v);
		o->grace_ms = (int)v;
		break;
	case OPT_USER:
		o->user = arg;
		break;
	case OPT_NO_SANDBOX:
		o->sandbox = SANDBOX_OFF;
		break;
	default:
		r = -EINVAL;
	}
	return r;
}

/* Returns 0, or 1 + the exit status. */
static int parse_options(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{"socket", required_argument, NULL, OPT_SOCKET},
		{"connect", required_argument, NULL, OPT_CONNECT},
		{"cid", required_argument, NULL, OPT_CID},
		{"forward", required_argument, NULL, OPT_FORWARD},
		{"handover", required_argument, NULL, OPT_HANDOVER},
		{"takeover", required_argument, NULL, OPT_TAKEOVER},
		{"socket-mode", required_argument, NULL, OPT_MODE},
		{"socket-group", required_argument, NULL, OPT_GROUP},
		{"pause-grace", required_argument, NULL, OPT_GRACE},
		{"user", required_argument, NULL, OPT_USER},
		{"no-sandbox", no_argument, NULL, OPT_NO_SANDBOX},
		{"version", no_argument, NULL, OPT_VERSION},
		{"help", no_argument, NULL, OPT_HELP},
		{0},
	};
	int id, index, r;

	while ((id = getopt_long(argc, argv, "", longs, &index)) != -1) {
		if (id == OPT_HELP || id == OPT_VERSION) {
			fputs(id == OPT_HELP ? usage_text
					     : "weft-vsock " WEFT_VERSION "\n",
			      stdout);
			return 1 + EXIT_SUCCESS;
		}
		if (id == '?')
			return 1 + EXIT_FAILURE;
		r = set_option(o, id, optarg);
		if (r < 0) {
			log_error("--%s %s: %s", longs[index].name, optarg, strerror(-r));
			return 1 + EXIT_FAILURE;
		}
	}
	if (optind == argc && !!o->socket + !!o->connect + !!o->takeover == 1 &&
	    (o->takeover || o->cid))
		return 0;
	fputs(usage_text, stderr);
	return 1 + EXIT_FAILURE;
}

/* Every connection takes a descriptor; the soft limit is often 1024. */
static void raise_descriptor_limit(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return;
	l.rlim_cur = MIN(l.rlim_max, (rlim_t)CONN_MAX + 256);
	if (setrlimit(RLIMIT_NOFILE, &l) < 0)
		log_debug("descriptor limit: %m");
}

/*
 * The supervisor's share, which its servers begin with. Root's device runs as another
 * user even without a sandbox.
 */
static int give_up_rights(const struct options *o)
{
	struct sandbox box = {
		.kind = SANDBOX_VSOCK_SUPERVISOR, .mode = o->sandbox, .user = o->user};
	int r = geteuid() == 0 ? sandbox_ids(o->user, &box.uid, &box.gid) : 0;

	if (r < 0) {
		log_error("user %s: %s", o->user ? o->user : "weft or nobody",
			  r == -EPERM ? "the device does not run as root"
				      : "there is no such user");
		return r;
	}
	r = sandbox_files(&box);
	if (r == 0)
		r = sandbox_enter(&box);
	if (r == 0)
		r = sandbox_user(&box);
	if (r < 0)
		log_error("sandbox: %s", strerror(-r));
	return r;
}

int main(int argc, char **argv)
{
	struct options o = {.mode = 0600, .grace_ms = -1, .fds = {-1, -1, -1, -1}};
	struct supervisor_ops ops = {
		.serve = serve, .ctx = &o, .first = o.fds, .n_first = FD_NUM};
	int r;

	log_set_program("weft-vsock");
	r = parse_options(argc, argv, &o);
	if (r > 0)
		return r - 1;
	signal(SIGPIPE, SIG_IGN);
	raise_descriptor_limit();
	/* Outlives the server's process, unlike its heap. */
	o.notes = mmap(NULL, CONN_MAX * sizeof(*o.notes), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (o.notes == MAP_FAILED) {
		log_error("no memory");
		return EXIT_FAILURE;
	}
	o.connector_fd = connector_start(&o.forward, o.sandbox);
	if (o.connector_fd < 0) {
		log_error("connector: %s", strerror(-o.connector_fd));
		return EXIT_FAILURE;
	}
	if (open_sockets(&o) < 0)
		return EXIT_FAILURE;
	notify_manager("READY=1");
	if (give_up_rights(&o) < 0)
		return EXIT_FAILURE;
	return supervisor_run(&ops);
}
