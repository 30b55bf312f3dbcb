// SPDX-License-Identifier: Apache-2.0
/* NVML: values by field number, each with a result of its own. */
#include <string.h>
#include <time.h>

#include "base/macros.h"
#include "nvml_attr.h"
#include "nvml_calls.h"
#include "nvml_session.h"

/* Fields that are sensors of the whole GPU. */
static const struct {
	unsigned field;
	enum sensor sensor;
} sensors[] = {
	{82, SENSOR_TEMPERATURE_MEMORY},
	{185, SENSOR_POWER}, /* averaged over a second, as nvmlDeviceGetPowerUsage() */
	{186, SENSOR_POWER_INSTANT},
	{187, SENSOR_POWER_MIN},
	{188, SENSOR_POWER_MAX},
	{189, SENSOR_POWER_DEFAULT},
	{190, SENSOR_POWER_ENFORCED},
	{192, SENSOR_POWER_LIMIT},
};

#define FIELD_ECC_CURRENT 1
#define FIELD_ECC_PENDING 2
#define FIELDS_MAX        1024 /* in one call; there are fewer numbers */

static enum nvml_return value_of(const struct nvml_device *dev, unsigned field,
				 unsigned *ret)
{
	unsigned other;
	size_t i;

	if (field == FIELD_ECC_CURRENT || field == FIELD_ECC_PENDING)
		return nvmlDeviceGetEccMode(dev, ret, &other);
	for (i = 0; i < ARRAY_SIZE(sensors); i++) {
		if (sensors[i].field == field)
			return nvml_session_sensor(sensors[i].sensor, ret);
	}
	return NVML_ERROR_NOT_SUPPORTED;
}

enum nvml_return nvmlDeviceGetFieldValues(const struct nvml_device *dev, int count,
					  struct nvml_field_value *values)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_session_device(dev, &info);
	struct timespec now;
	unsigned value;
	int i;

	if (r)
		return r;
	if (count <= 0 || count > FIELDS_MAX || !values)
		return NVML_ERROR_INVALID_ARGUMENT;
	clock_gettime(CLOCK_REALTIME, &now);
	for (i = 0; i < count; i++) {
		struct nvml_field_value *v = &values[i];

		value = 0;
		v->timestamp_us = now.tv_sec * 1000000ll + now.tv_nsec / 1000;
		v->latency_us = 0;
		v->value_type = NVML_VALUE_TYPE_UNSIGNED_INT;
		/* Another scope is a module's or a memory's: not told apart here. */
		v->result = v->scope ? NVML_ERROR_NOT_SUPPORTED
				     : value_of(dev, v->field, &value);
		v->value = value;
	}
	return NVML_SUCCESS;
}
