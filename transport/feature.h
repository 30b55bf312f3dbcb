/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features that the ends of a session tell each other when it opens, so that each uses what
 * the other knows: bits that never change their meaning. Whoever is older does not have the
 * newer ones.
 */
#ifndef WEFT_FEATURE_H
#define WEFT_FEATURE_H

/* The host's, in the reply to session_open. */
enum feature {
	FEATURE_COMPILES = 1 << 0, /* cuLinkComplete() gives machine code of the device */
	FEATURE_APART = 1 << 1,    /* takes commands with WIRE_F_APART */
	/* Looks at what machine code was compiled from, to know where kernels reach memory. */
	FEATURE_SOURCES = 1 << 2,
};

/* The guest's library's, in session_open. */
enum guest_feature {
	GUEST_FEATURE_OUTPUT = 1 << 0, /* prints what comes with WIRE_F_OUTPUT */
};

#endif
