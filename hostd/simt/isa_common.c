/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers that exist once. */
#include "simt/exec.h"

extern const struct simt_handler simt_h_ctrl[], simt_h_call[], simt_h_bar[], simt_h_sys[],
	simt_h_atom[], simt_h_async[], simt_h_cluster[], simt_h_poll[], simt_h_video[],
	simt_h_tex[];

const struct simt_handler *const simt_isa_common[] = {
	simt_h_ctrl,    simt_h_call, simt_h_bar,   simt_h_sys, simt_h_atom, simt_h_async,
	simt_h_cluster, simt_h_poll, simt_h_video, simt_h_tex, NULL,
};
