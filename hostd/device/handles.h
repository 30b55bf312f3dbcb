/* SPDX-License-Identifier: Apache-2.0 */
/* Handles of a device: opaque to all but the device that gave them. */
#ifndef WEFT_DEVICE_HANDLES_H
#define WEFT_DEVICE_HANDLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

struct device;  /* one GPU as one process sees it */
struct dev_ctx; /* a context */
struct dev_stream;
struct dev_event;
struct dev_module; /* a loaded image: cubin, PTX, fatbin (CUmodule and CUlibrary alike) */
struct dev_func;   /* an entry function of a module; lives as long as the module */
struct dev_link;   /* code being linked */
struct dev_mem;    /* physical memory that can be mapped into the band */
struct dev_array;  /* a CUDA array, or a mipmapped one with all its levels */
struct dev_texture; /* a texture or surface object */
struct dev_graph;   /* an executable graph */
struct dev_shell;   /* what handles of conditional nodes belong to */

#endif
