/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer that CUDA runtimes since 11.6 expect of the private table INTEGRITY_CHECK: a
 * keyed digest (HMAC of RFC 2104 over MD2 of RFC 1319) of the driver's version, this
 * process and thread, the addresses of two tables and the devices. The runtime computes
 * the same and refuses a driver that answers otherwise.
 */
#ifndef WEFT_GUEST_INTEGRITY_H
#define WEFT_GUEST_INTEGRITY_H

#include <stddef.h>
#include <stdint.h>

#define MD2_SIZE 16

struct md2 {
	uint8_t state[MD2_SIZE];
	uint8_t checksum[MD2_SIZE];
	uint8_t block[MD2_SIZE];
	unsigned used; /* bytes in block */
};

void md2_init(struct md2 *m);
void md2_update(struct md2 *m, const void *data, size_t size);
void md2_final(struct md2 *m, uint8_t ret_digest[MD2_SIZE]);

/* key_size is at most MD2_SIZE, which is also MD2's block size. */
struct hmac_md2 {
	struct md2 inner, outer;
};

void hmac_md2_init(struct hmac_md2 *h, const uint8_t *key, size_t key_size);
void hmac_md2_final(struct hmac_md2 *h, uint8_t ret_digest[MD2_SIZE]);

struct integrity_device {
	uint8_t uuid[16];
	int32_t pci_domain, pci_bus, pci_device;
};

struct integrity_input {
	uint32_t driver_version, runtime_version;
	uint32_t pid, thread; /* low half of pthread_self() */
	uint64_t cudart_table, integrity_table, function;
	uint64_t unix_seconds;
	const struct integrity_device *devices; /* in ordinal order */
	unsigned n_devices;
};

void integrity_answer(const struct integrity_input *in, uint64_t ret_answer[2]);

#endif
