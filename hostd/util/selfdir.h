/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the programs and libraries that belong to this one. */
#ifndef WEFT_UTIL_SELFDIR_H
#define WEFT_UTIL_SELFDIR_H

/*
 * The directory that holds the program or library `name`: beside the running program (a build tree
 * or one directory for all), else where the installation has it. *ret_dir is the
 * caller's. Returns 0, -ENOENT or -errno.
 */
int self_dir(const char *name, char **ret_dir);

/* The directory of libcuda.so.1: the build tree's, or LIBDIR/weft of the installation. */
int self_lib_dir(char **ret_dir);

#endif
