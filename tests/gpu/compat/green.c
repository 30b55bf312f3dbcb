/* SPDX-License-Identifier: Apache-2.0 */
/* weft: soft */
/* Green contexts, as tests/path has them. */
#include "../../path/drv_green.c"
