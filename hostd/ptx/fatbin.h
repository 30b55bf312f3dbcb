/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fatbins: the containers in which nvcc embeds machine code and PTX for several GPUs.
 *
 *     container: u32 magic 0xBA55ED50, u16 version 1, u16 header bytes 16, u64 bytes of
 *                what follows: entries, one behind the other
 *     entry:     u16 kind, u16 version, u32 header bytes (64 or more), u64 payload bytes
 *                (padded to 8), u32 compressed bytes, u32, u16 minor, u16 major, u32 sm,
 *                u32, u32, u64 flags, u64, u64 plain bytes; then the payload
 *
 * A program of relocatable code (nvcc -rdc=true) holds one container with the linked
 * machine code, and behind the wrapper's second pointer a list with one container for
 * each object file, in which the PTX is: fatbin_ptx() on each of those, ptx_parse(),
 * ptx_link().
 *
 * Everything here reads foreign bytes: sizes are checked against the image before use,
 * nothing is written into it. Any thread.
 */
#ifndef WEFT_FATBIN_H
#define WEFT_FATBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FATBIN_MAGIC     0xBA55ED50u
#define FATBIN_HDR_BYTES 16u
#define FATBIN_MAX_PLAIN (256u << 20) /* of one entry, decompressed */

enum fatbin_kind {
	FATBIN_PTX = 1,
	FATBIN_ELF = 2, /* machine code; other numbers exist (NVVM IR) and are skipped */
};

enum fatbin_packing {
	FATBIN_PLAIN,
	FATBIN_LZ4,
	FATBIN_ZSTD,
	FATBIN_UNKNOWN, /* of toolkits before 9: not readable */
};

struct fatbin_entry {
	unsigned kind;      /* enum fatbin_kind, or another number */
	unsigned version;   /* of PTX: 90 is 9.0 */
	unsigned sm;        /* 90 */
	bool arch_specific; /* sm_90a, sm_100f: for that architecture alone */
	enum fatbin_packing packing;
	const uint8_t *payload; /* in the image */
	size_t payload_bytes;   /* as stored */
	uint64_t plain_bytes;   /* decompressed; payload_bytes when FATBIN_PLAIN */
};

enum fatbin_format {
	FATBIN_IS_CONTAINER,
	FATBIN_IS_ELF,
	FATBIN_IS_TEXT
};

/* Tells an image's format by its first bytes. Returns 0, or -EBADMSG when it is none. */
int fatbin_format(const void *image, size_t len, enum fatbin_format *ret);

/*
 * Steps through a container's entries: *pos is 0 at first and belongs to this function.
 * Returns 1 with an entry, 0 behind the last one, -EBADMSG when a size does not hold.
 */
int fatbin_next(const void *image, size_t len, size_t *pos, struct fatbin_entry *ret);

/*
 * Finds the PTX that a GPU of compute capability sm (90: 9.0) would compile: the highest
 * target that is not above sm; arch-specific text only for exactly sm, and only when
 * there is no other for it. image is a container or PTX text, which is taken as it is.
 * *ret_text is NUL-terminated and the caller's to free().
 * Returns 0; -ENOEXEC: only machine code, or PTX for later GPUs; -EBADMSG: malformed;
 * -ENOTSUP: the only PTX is packed in a way that is not readable; -E2BIG; -ENOMEM.
 */
int fatbin_ptx(const void *image, size_t len, unsigned sm, char **ret_text,
	       size_t *ret_len);

/*
 * Finds the machine code that such a GPU would take: that of an image that is nothing else, or
 * of the entry of a container with the highest architecture of the same generation that is not
 * above sm. Results as fatbin_ptx()'s; -ENOEXEC: there is none.
 */
int fatbin_elf(const void *image, size_t len, unsigned sm, char **ret_elf,
	       size_t *ret_len);

/*
 * True if code in an image (a container, PTX text or machine code) that a GPU of compute
 * capability sm could take may name a function: its name stands there, or that cannot be
 * seen. Unpacks what is packed, up to 64 MiB.
 */
bool fatbin_may_name(const void *image, size_t len, unsigned sm, const char *name);

/*
 * Names what an image is for, "sm_80, sm_90" or "compute_100", and ", ..." for what does
 * not fit; nothing where that cannot be seen. buf is NUL-terminated.
 */
void fatbin_targets(const void *image, size_t len, char *buf, size_t cap);

#endif
