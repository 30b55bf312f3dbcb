/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/fd.h"
#include "base/log.h"
#include "virtqueue.h"

static_assert(sizeof(struct vq_desc) == 16, "virtio ABI");
static_assert(sizeof(struct vq_used_elem) == 8, "virtio ABI");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "rings are little endian");

void vq_init(struct vq *q)
{
	memset(q, 0, sizeof(*q));
	q->kick_fd = q->call_fd = q->err_fd = -1;
}

void vq_reset(struct vq *q)
{
	closep(&q->kick_fd);
	closep(&q->call_fd);
	closep(&q->err_fd);
	vq_init(q);
}

int vq_map(struct vq *q, const struct gmem *m)
{
	struct vq_desc *desc;
	struct vq_avail *avail;
	struct vq_used *used;

	q->desc = NULL;
	q->avail = NULL;
	q->used = NULL;
	if (!q->num)
		return -EFAULT;
	desc = gmem_from_uva(m, q->desc_uva, (uint64_t)q->num * sizeof(*desc));
	avail = gmem_from_uva(m, q->avail_uva, sizeof(*avail) + (uint64_t)q->num * 2);
	used = gmem_from_uva(m, q->used_uva,
			     sizeof(*used) +
				     (uint64_t)q->num * sizeof(struct vq_used_elem));
	if (!desc || !avail || !used)
		return -EFAULT;
	if ((uintptr_t)desc % 16 || (uintptr_t)avail % 2 || (uintptr_t)used % 4)
		return -EFAULT;
	q->desc = desc;
	q->avail = avail;
	q->used = used;
	if (!q->used_known) {
		q->used_idx = __atomic_load_n(&used->idx, __ATOMIC_RELAXED);
		q->used_known = true;
	}
	return 0;
}

int vq_break(struct vq *q, const char *why)
{
	uint64_t one = 1;

	if (q->broken)
		return -EPROTO;
	log_debug("queue stopped: %s", why);
	q->broken = true;
	if (q->err_fd >= 0 && write(q->err_fd, &one, sizeof(one)) < 0)
		log_debug("err descriptor: %m");
	return -EPROTO;
}

/* Adds one descriptor to the chain. Returns NULL or what is wrong with it. */
static const char *chain_add(struct gmem *m, const struct vq_desc *d, struct vq_chain *c)
{
	unsigned used = c->n_out + c->n_in;
	int n;

	if (!(d->flags & VQ_DESC_F_WRITE) && c->n_in)
		return "readable buffer after a writable one";
	n = gmem_iov(m, d->addr, d->len, c->iov + used, VQ_MAX_IOV - used);
	if (n == -E2BIG)
		return "chain too long";
	if (n < 0)
		return "buffer outside memory";
	if (d->flags & VQ_DESC_F_WRITE) {
		c->n_in += (unsigned)n;
		c->in_bytes += d->len;
	} else {
		c->n_out += (unsigned)n;
		c->out_bytes += d->len;
	}
	return NULL;
}

/*
 * Walks a table of num descriptors from index i. A walk longer than the table can only be
 * a loop; empty buffers count too, so that a loop of them ends.
 */
static const char *chain_walk(struct gmem *m, const struct vq_desc *table, unsigned num,
			      unsigned i, bool indirect, struct vq_chain *c,
			      struct vq_desc *ret_indirect)
{
	for (unsigned steps = 0; steps < num; steps++) {
		struct vq_desc d;
		const char *why;

		if (i >= num)
			return "descriptor index out of range";
		memcpy(&d, &table[i], sizeof(d));
		if (d.flags & VQ_DESC_F_INDIRECT) {
			if (indirect || (d.flags & VQ_DESC_F_NEXT) || steps)
				return "misplaced indirect table";
			*ret_indirect = d;
			return NULL;
		}
		why = chain_add(m, &d, c);
		if (why)
			return why;
		if (!(d.flags & VQ_DESC_F_NEXT))
			return NULL;
		i = d.next;
	}
	return "descriptor loop";
}

static const char *chain_indirect(struct gmem *m, const struct vq_desc *d,
				  struct vq_chain *c)
{
	struct vq_desc table[VQ_MAX_IOV], none = {0};
	struct iovec iov[4];
	size_t at = 0;
	int n;

	if (d->len == 0 || d->len % sizeof(*table) || d->len > sizeof(table))
		return "bad size of an indirect table";
	n = gmem_iov(m, d->addr, d->len, iov, ARRAY_SIZE(iov));
	if (n < 0)
		return "indirect table outside memory";
	for (int i = 0; i < n; i++) {
		memcpy((char *)table + at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	return chain_walk(m, table, d->len / sizeof(*table), 0, true, c, &none);
}

int vq_pop(struct vq *q, struct gmem *m, struct vq_chain *ret_chain)
{
	struct vq_desc indirect = {0};
	const char *why;
	uint16_t idx, n;

	if (!vq_ready(q))
		return 0;
	/* Pairs with the guest's release of avail->idx: entries below it are written. */
	idx = __atomic_load_n(&q->avail->idx, __ATOMIC_ACQUIRE);
	n = (uint16_t)(idx - q->last_avail);
	if (n == 0)
		return 0;
	if (n > q->num)
		return vq_break(q, "available index beyond the ring");
	ret_chain->head = __atomic_load_n(&q->avail->ring[q->last_avail & (q->num - 1)],
					  __ATOMIC_RELAXED);
	ret_chain->n_out = ret_chain->n_in = 0;
	ret_chain->out_bytes = ret_chain->in_bytes = 0;
	why = chain_walk(m, q->desc, q->num, ret_chain->head, false, ret_chain,
			 &indirect);
	if (!why && indirect.flags)
		why = chain_indirect(m, &indirect, ret_chain);
	if (why)
		return vq_break(q, why);
	q->last_avail++;
	return 1;
}

void vq_unpop(struct vq *q, unsigned n)
{
	q->last_avail = (uint16_t)(q->last_avail - n);
}

void vq_push(struct vq *q, const struct vq_chain *c, uint32_t len)
{
	struct vq_used_elem *e = &q->used->ring[q->used_idx & (q->num - 1)];

	e->id = c->head;
	e->len = len;
	q->used_idx++;
	/* Pairs with the guest's acquire of used->idx: the element and the data first. */
	__atomic_store_n(&q->used->idx, q->used_idx, __ATOMIC_RELEASE);
	q->pushed++;
}

void vq_signal(struct vq *q)
{
	uint64_t one = 1;

	if (!q->pushed || !q->avail)
		return;
	q->pushed = 0;
	/* Our used->idx before its flags; pairs with the guest's flags before used->idx.
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&q->avail->flags, __ATOMIC_RELAXED) & VQ_AVAIL_F_NO_INTERRUPT)
		return;
	if (q->call_fd >= 0 && write(q->call_fd, &one, sizeof(one)) < 0)
		log_debug("call descriptor: %m");
}

bool vq_set_notify(struct vq *q, bool on)
{
	if (!vq_ready(q))
		return false;
	if (q->notify_off == on) {
		q->notify_off = !on;
		__atomic_store_n(&q->used->flags, on ? 0 : VQ_USED_F_NO_NOTIFY,
				 __ATOMIC_RELAXED);
	}
	if (!on)
		return false;
	/* Our flags before its avail->idx; pairs with the guest's idx before our flags.
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&q->avail->idx, __ATOMIC_ACQUIRE) != q->last_avail;
}
