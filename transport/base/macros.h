/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small helpers used by every part: array sizes, alignment, ownership transfer
 * and scope-bound cleanup.
 */
#ifndef WEFT_BASE_MACROS_H
#define WEFT_BASE_MACROS_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define container_of(ptr, type, member)                                                  \
	((type *)((char *)(ptr) - offsetof(type, member)))

/* Power-of-two alignment. */
#define ALIGN_UP(x, a)	 (((x) + (__typeof__(x))(a)-1) & ~((__typeof__(x))(a)-1))
#define ALIGN_DOWN(x, a) ((x) & ~((__typeof__(x))(a)-1))

#define MIN(a, b)                                                                        \
	({                                                                               \
		__typeof__(a) _a = (a);                                                  \
		__typeof__(b) _b = (b);                                                  \
		_a < _b ? _a : _b;                                                       \
	})
#define MAX(a, b)                                                                        \
	({                                                                               \
		__typeof__(a) _a = (a);                                                  \
		__typeof__(b) _b = (b);                                                  \
		_a > _b ? _a : _b;                                                       \
	})

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define _cleanup_(f)	    __attribute__((cleanup(f)))
#define _printf_(fmt, args) __attribute__((format(printf, fmt, args)))
#define _public_	    __attribute__((visibility("default")))

/* Moves a pointer out of a scope-cleaned variable. */
#define steal(p)                                                                         \
	({                                                                               \
		__typeof__(p) _p = (p);                                                  \
		(p) = NULL;                                                              \
		_p;                                                                      \
	})

/* Defines name##p(), a cleanup handler for variables of pointer type. */
#define DEFINE_CLEANUP(type, free_fn)                                                    \
	static inline void free_fn##p(type *p)                                           \
	{                                                                                \
		if (*p)                                                                  \
			free_fn(*p);                                                     \
	}

static inline void freep(void *p)
{
	free(*(void **)p);
}

#define _cleanup_free_ _cleanup_(freep)

/* Tells the processor that this is a spin loop. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield");
#endif
}

#endif
