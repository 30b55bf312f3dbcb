/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How libnvidia-ml.so.1 reaches the host: a session of its own, opened by nvmlInit and
 * closed by the last nvmlShutdown, on which only monitoring messages are sent. One lock
 * covers it; every function below may be called from any thread.
 */
#ifndef WEFT_NVML_SESSION_H
#define WEFT_NVML_SESSION_H

#include "nvml_abi.h"
#include "ops.h"
#include "refusal.h"
#include "sensor.h"

/* Opens the session or counts one more user. */
enum nvml_return nvml_session_open(void);

/* One user less. UNINITIALIZED if there is none. */
enum nvml_return nvml_session_close(void);

/* What the host said when the session opened; constant while it is open. */
enum nvml_return nvml_session_info(const struct session_open_rep **ret_info);

/* The device's state now. */
enum nvml_return nvml_session_status(struct device_status_rep *ret_status);

/* What all sensors of the device say now. */
enum nvml_return nvml_session_sensors(uint32_t ret_value[SENSOR_NUM]);

/* What one says; NOT_SUPPORTED if it has none. */
enum nvml_return nvml_session_sensor(enum sensor which, unsigned *ret_value);

/*
 * The processes of this machine that use the device; *ret_list is malloced, the caller
 * frees it.
 */
enum nvml_return nvml_session_processes(struct wire_process_info **ret_list,
					unsigned *ret_count);

/*
 * Checks a handle that a program passed in: UNINITIALIZED, INVALID_ARGUMENT or SUCCESS
 * with what is known of the device.
 */
enum nvml_return nvml_session_device(const struct nvml_device *dev,
				     const struct session_open_rep **ret_info);

/* The same, and out must be there. */
enum nvml_return nvml_enter(const struct nvml_device *dev, const void *out,
			    const struct session_open_rep **ret_info);

/* Counts something that is not here, for weftctl info (core/refused.h). */
void nvml_refuse(enum refusal kind, const char *what);

/* The only handle. */
struct nvml_device *nvml_the_device(void);

/* An attribute of the device by CUdevice_attribute; fallback where the host has none. */
int nvml_attribute(const struct session_open_rep *info, unsigned attr, int fallback);

/* Copies text with its NUL: INVALID_ARGUMENT, INSUFFICIENT_SIZE or SUCCESS. */
enum nvml_return nvml_copy_text(char *to, unsigned room, const char *text);

#endif
