/* SPDX-License-Identifier: Apache-2.0 */
/* Features of a host, as the reply to session_open has them: bits that never change. */
#ifndef WEFT_FEATURE_H
#define WEFT_FEATURE_H

enum feature {
	FEATURE_COMPILES = 1 << 0, /* cuLinkComplete() gives machine code of the device */
};

#endif
