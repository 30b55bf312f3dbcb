/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling a texture for one lane. */
#ifndef WEFT_SIMT_SAMPLE_H
#define WEFT_SIMT_SAMPLE_H

#include "simt/exec.h"
#include "simt/texture.h"

/* Coordinates as an instruction gives them. */
struct simt_tex_at {
	uint8_t geom; /* enum ptx_geom */
	bool fetch;   /* x, y, z are integers: no filter, no scaling */
	uint32_t layer;
	int32_t index[3];
	float c[3];
};

enum simt_tex_lod {
	SIMT_LOD_NONE,
	SIMT_LOD_LEVEL, /* a[0] */
	SIMT_LOD_GRAD,  /* a, b: derivatives */
};

/*
 * The four components, as bits of floats or as integers. False: a texel lies where
 * nothing may be read, and *ret_addr is its address.
 */
bool simt_tex_sample(struct simt_warp *w, const struct simt_texture *t,
		     const struct simt_tex_at *at, enum simt_tex_lod kind, const float *a,
		     const float *b, uint32_t ret[4], uint64_t *ret_addr);

/* One component of the four texels that a linear filter would use. */
bool simt_tex_gather(struct simt_warp *w, const struct simt_texture *t,
		     const struct simt_tex_at *at, unsigned component, uint32_t ret[4],
		     uint64_t *ret_addr);

#endif
