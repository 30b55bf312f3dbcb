/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Session of libnvidia-ml.so.1 with the host: opened by nvmlInit and closed by the last
 * nvmlShutdown, for monitoring messages alone. One lock covers it; every function below
 * may be called from any thread. Questions return UNINITIALIZED where there is no
 * session.
 */
#ifndef WEFT_NVML_SESSION_H
#define WEFT_NVML_SESSION_H

#include <stdbool.h>

#include "nvml_abi.h"
#include "ops.h"
#include "refusal.h"
#include "sensor.h"

/* Opens the session or counts one more user. */
enum nvml_return nvml_session_open(void);

/* Counts one user less; the last one closes the session. UNINITIALIZED if there is
 * none. */
enum nvml_return nvml_session_close(void);

/* Gives the host's description of the device, made when the session opened; constant
 * while it is open. */
enum nvml_return nvml_session_info(const struct session_open_rep **ret_info);

/* Asks the host for the device's present state. */
enum nvml_return nvml_session_status(struct device_status_rep *ret_status);

/* Asks the host for the present values of all sensors of the device. */
enum nvml_return nvml_session_sensors(uint32_t ret_value[SENSOR_NUM]);

/* Asks for the present value of one sensor; NOT_SUPPORTED if the device has none of that
 * kind. */
enum nvml_return nvml_session_sensor(enum sensor which, unsigned *ret_value);

/* A process of this machine that uses the device. */
struct nvml_user {
	struct wire_process_info is;
	bool draws; /* by OpenGL, and does not compute */
};

/* Lists them; *ret_list is malloced, the caller frees it. */
enum nvml_return nvml_session_processes(struct nvml_user **ret_list,
					unsigned *ret_count);

/*
 * Checks a handle that a program passed in: UNINITIALIZED, INVALID_ARGUMENT or SUCCESS
 * with the description of the device.
 */
enum nvml_return nvml_session_device(const struct nvml_device *dev,
				     const struct session_open_rep **ret_info);

/* As nvml_session_device(); also INVALID_ARGUMENT if out is NULL. */
enum nvml_return nvml_enter(const struct nvml_device *dev, const void *out,
			    const struct session_open_rep **ret_info);

/* Counts a request for a thing that is not here, for weftctl info (core/refused.h). */
void nvml_refuse(enum refusal kind, const char *what);

/* The only handle. */
struct nvml_device *nvml_the_device(void);

/* An attribute of the device by CUdevice_attribute; fallback where the host has none. */
int nvml_attribute(const struct session_open_rep *info, unsigned attr, int fallback);

/* Copies text with its NUL: INVALID_ARGUMENT, INSUFFICIENT_SIZE or SUCCESS. */
enum nvml_return nvml_copy_text(char *to, unsigned room, const char *text);

#endif
