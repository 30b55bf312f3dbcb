/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refusals: requests of a program that Weft has no answer for; kinds and limits that
 * guest and host share. The guest's libraries count and tell (message refused), the
 * worker counts what its device refuses, weftctl info shows it. New kinds come last.
 */
#ifndef WEFT_REFUSAL_H
#define WEFT_REFUSAL_H

#include <stdint.h>

enum refusal {
	REFUSAL_FUNCTION,  /* a function that is only a name, by its name */
	REFUSAL_FEATURE,   /* a function, with arguments that need something missing */
	REFUSAL_TABLE,     /* a table of cuGetExportTable(), by UUID */
	REFUSAL_SLOT,      /* an entry of such a table */
	REFUSAL_ATTRIBUTE, /* an attribute, by the function that was asked and its number
			    */
	REFUSAL_DEVICE,    /* a command that the device (the driver) does not support */
	REFUSAL_VERSION,   /* what the other end is too old, or too new, to know */
	REFUSAL_NUM
};

/* Different ones that are told apart in a session; the others are counted together. */
#define REFUSAL_MAX  64
#define REFUSAL_TEXT 64 /* bytes of one's name, with its NUL */

#endif
