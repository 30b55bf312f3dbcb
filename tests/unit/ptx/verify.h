/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of what ptx.h guarantees about a module, for tests and fuzzing. */
#ifndef WEFT_TEST_PTX_VERIFY_H
#define WEFT_TEST_PTX_VERIFY_H

#include "ptx/ptx.h"

/* NULL when every guarantee holds, else which one does not. */
const char *ptx_verify(const struct ptx_module *m);

#endif
