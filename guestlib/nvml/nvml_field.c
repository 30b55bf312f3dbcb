/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: values by field number, each with a result of its own. */
#include <stdbool.h>
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
	bool scoped; /* scope 0 is the GPU; others, its module or memory, are not told */
} sensors[] = {
	{82, SENSOR_TEMPERATURE_MEMORY, false},
	{185, SENSOR_POWER, true}, /* over a second, as nvmlDeviceGetPowerUsage() */
	{186, SENSOR_POWER_INSTANT, true},
	{187, SENSOR_POWER_MIN, true},
	{188, SENSOR_POWER_MAX, true},
	{189, SENSOR_POWER_DEFAULT, true},
	{190, SENSOR_POWER_ENFORCED, true},
	{192, SENSOR_POWER_LIMIT, true},
};

#define FIELD_ECC_CURRENT 1
#define FIELD_ECC_PENDING 2
#define FIELDS_MAX        1024 /* in one call; there are fewer numbers */

static enum nvml_return value_of(const struct nvml_device *dev, unsigned field,
				 unsigned scope, unsigned *ret)
{
	unsigned other;
	size_t i;

	if (field == FIELD_ECC_CURRENT || field == FIELD_ECC_PENDING)
		return nvmlDeviceGetEccMode(dev, ret, &other);
	for (i = 0; i < ARRAY_SIZE(sensors); i++) {
		if (sensors[i].field == field && !(sensors[i].scoped && scope))
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
		v->result = value_of(dev, v->field, v->scope, &value);
		v->value = value;
	}
	return NVML_SUCCESS;
}
