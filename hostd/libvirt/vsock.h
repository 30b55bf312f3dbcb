/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The weft-vsock of a VM. It outlives the hook, libvirtd and weftd: a service of its own
 * where systemd runs, a process of its own session elsewhere. Either way it holds a lock
 * on a file of the VM's for as long as it lives; who has that lock is whom we mean, so no
 * process number is ever remembered.
 */
#ifndef WEFT_LIBVIRT_VSOCK_H
#define WEFT_LIBVIRT_VSOCK_H

struct note;

/* Starts it unless it runs, and waits until it listens for QEMU. Returns 0 or -errno and
 * a sentence. */
int vsock_start(const struct note *n, char **ret_why);

/* Ends it, waits for that, and removes its sockets. */
void vsock_stop(const struct note *n);

/* Becomes it: takes the lock and executes the program. Returns only on failure, -errno. */
int vsock_exec(const struct note *n);

#endif
