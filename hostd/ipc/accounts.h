/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How parts of a worker reach weftd's accounts. The worker's main thread answers by
 * messages (ipc/msg.h); tests answer by themselves.
 */
#ifndef WEFT_IPC_ACCOUNTS_H
#define WEFT_IPC_ACCOUNTS_H

#include <stdbool.h>
#include <stdint.h>

struct msg_tenant;
struct share_part;

/* Any thread may call these. */
struct accounts {
	/* Asks for more device memory. Returns 0 or -EDQUOT; waits for weftd's answer. */
	int (*charge)(void *arg, uint64_t bytes);
	/* Asks as charge() does, but *ret_evicted of the bytes may be given in host
	 * memory; evicted_uncharge() gives those back. spare: those are all that others
	 * have within their shares. NULL: all of it is on the device. */
	int (*charge_part)(void *arg, uint64_t bytes, bool spare, uint64_t *ret_evicted);
	/* Gives device memory back. Never waits. */
	void (*uncharge)(void *arg, uint64_t bytes);
	/* Gives memory back that had moved to host memory, or is just about to arrive
	 * there (space_move_out() has not returned). NULL: uncharge() does it. */
	void (*evicted_uncharge)(void *arg, uint64_t bytes);
	/* Tells the bytes that the tenant has left, and that it may have: at most those
	 * of the device. Returns 0 or -errno; may wait. */
	int (*memory)(void *arg, uint64_t *ret_free, uint64_t *ret_total);
	/* Tells how busy the tenant is. Returns 0, -ENODATA or -errno; waits. */
	int (*tenant)(void *arg, struct msg_tenant *ret_tenant);
	/*
	 * Asks for host memory. *ret_offset is where in the VM's window it lies, if there
	 * is one. Returns 0, -EOPNOTSUPP (the window is full, other memory will do) or
	 * -EDQUOT; waits. Either may be NULL: nobody counts.
	 */
	int (*host_charge)(void *arg, uint64_t bytes, uint64_t *ret_offset);
	void (*host_uncharge)(void *arg, uint64_t offset, uint64_t bytes);
	/* Asks for worker memory (wmem.h). 0 or -EDQUOT; waits. NULL: nobody counts. */
	int (*wmem_charge)(void *arg, uint64_t bytes);
	void (*wmem_uncharge)(void *arg, uint64_t bytes);
	/*
	 * Sharing with other sessions of the tenant, by random names of 16 bytes; see
	 * ipc/msg.h. ipc_export leaves x->fd the caller's; ipc_open gives one that is.
	 * 0, -EDEADLK (open: the session's own), -EINVAL (there is none) or -errno; both
	 * wait. The first part's export gives the name, which the others then take; until
	 * the last one has come nobody finds it. ipc_open() takes x->kind and x->part.
	 * ipc_drop() uncharges the bytes, if all parts were there. NULL, all of them:
	 * there are no others.
	 */
	int (*ipc_export)(void *arg, const struct share_part *x, uint8_t *name);
	int (*ipc_open)(void *arg, const uint8_t *name, struct share_part *x);
	void (*ipc_close)(void *arg, const uint8_t *name);
	void (*ipc_drop)(void *arg, const uint8_t *name);
	void *arg;
};

#endif
