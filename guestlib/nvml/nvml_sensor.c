/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: what the device measures of itself, and clocks. */
#include "base/macros.h"
#include "nvml_attr.h"
#include "nvml_calls.h"
#include "nvml_session.h"

#define KHZ_PER_MHZ 1000

static enum nvml_return sensor(const struct nvml_device *dev, enum sensor which,
			       unsigned *out)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_enter(dev, out, &info);

	return r ? r : nvml_session_sensor(which, out);
}

/* One of several that follow one another, by the caller's number. */
static enum nvml_return sensor_of(const struct nvml_device *dev, enum sensor first,
				  unsigned n, unsigned index, unsigned *out)
{
	if (index >= n)
		return NVML_ERROR_INVALID_ARGUMENT;
	return sensor(dev, first + index, out);
}

enum nvml_return nvmlDeviceGetTemperature(const struct nvml_device *dev, unsigned which,
					  unsigned *celsius)
{
	return sensor_of(dev, SENSOR_TEMPERATURE, 1, which, celsius);
}

enum nvml_return nvmlDeviceGetTemperatureV(const struct nvml_device *dev,
					   struct nvml_temperature_v1 *t)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_enter(dev, t, &info);
	unsigned value;

	if (r)
		return r;
	if (t->version != NVML_TEMPERATURE_V1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	r = nvmlDeviceGetTemperature(dev, t->sensor, &value);
	if (r == NVML_SUCCESS)
		t->celsius = (int)value;
	return r;
}

enum nvml_return nvmlDeviceGetTemperatureThreshold(const struct nvml_device *dev,
						   unsigned which, unsigned *celsius)
{
	static const enum sensor by_kind[] = {
		SENSOR_TEMPERATURE_SHUTDOWN,
		SENSOR_TEMPERATURE_SLOWDOWN,
		SENSOR_TEMPERATURE_MEMORY_MAX,
		SENSOR_TEMPERATURE_MAX,
	};

	if (which >= NVML_TEMPERATURE_THRESHOLD_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (which >= ARRAY_SIZE(by_kind))
		return NVML_ERROR_NOT_SUPPORTED;
	return sensor(dev, by_kind[which], celsius);
}

enum nvml_return nvmlDeviceGetPowerUsage(const struct nvml_device *dev, unsigned *mw)
{
	return sensor(dev, SENSOR_POWER, mw);
}

enum nvml_return nvmlDeviceGetEnforcedPowerLimit(const struct nvml_device *dev,
						 unsigned *mw)
{
	return sensor(dev, SENSOR_POWER_ENFORCED, mw);
}

enum nvml_return nvmlDeviceGetPowerManagementLimit(const struct nvml_device *dev,
						   unsigned *mw)
{
	return sensor(dev, SENSOR_POWER_LIMIT, mw);
}

enum nvml_return nvmlDeviceGetPowerManagementDefaultLimit(const struct nvml_device *dev,
							  unsigned *mw)
{
	return sensor(dev, SENSOR_POWER_DEFAULT, mw);
}

enum nvml_return nvmlDeviceGetPowerManagementLimitConstraints(
	const struct nvml_device *dev, unsigned *min_mw, unsigned *max_mw)
{
	enum nvml_return r = sensor(dev, SENSOR_POWER_MIN, min_mw);

	return r ? r : sensor(dev, SENSOR_POWER_MAX, max_mw);
}

enum nvml_return nvmlDeviceGetFanSpeed(const struct nvml_device *dev, unsigned *percent)
{
	return sensor(dev, SENSOR_FAN, percent);
}

enum nvml_return nvmlDeviceGetPerformanceState(const struct nvml_device *dev,
					       unsigned *state)
{
	return sensor(dev, SENSOR_PERFORMANCE_STATE, state);
}

enum nvml_return nvmlDeviceGetPowerState(const struct nvml_device *dev, unsigned *state)
{
	return sensor(dev, SENSOR_PERFORMANCE_STATE, state);
}

enum nvml_return nvmlDeviceGetClockInfo(const struct nvml_device *dev, unsigned type,
					unsigned *mhz)
{
	return sensor_of(dev, SENSOR_CLOCK_GRAPHICS, NVML_CLOCK_COUNT, type, mhz);
}

/* The highest of these clocks is also an attribute that every device has. */
enum nvml_return nvmlDeviceGetMaxClockInfo(const struct nvml_device *dev, unsigned type,
					   unsigned *mhz)
{
	enum nvml_return r =
		sensor_of(dev, SENSOR_MAX_CLOCK_GRAPHICS, NVML_CLOCK_COUNT, type, mhz);
	const struct session_open_rep *info;
	int khz;

	if (r != NVML_ERROR_NOT_SUPPORTED || nvml_session_info(&info))
		return r;
	khz = nvml_attribute(
		info, type == NVML_CLOCK_MEM ? ATTR_MEMORY_CLOCK_RATE : ATTR_CLOCK_RATE,
		0);
	if (khz <= 0 || type == NVML_CLOCK_VIDEO)
		return NVML_ERROR_NOT_SUPPORTED;
	*mhz = (unsigned)khz / KHZ_PER_MHZ;
	return NVML_SUCCESS;
}

enum nvml_return nvmlDeviceGetClock(const struct nvml_device *dev, unsigned type,
				    unsigned id, unsigned *mhz)
{
	if (type >= NVML_CLOCK_COUNT || id >= NVML_CLOCK_ID_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	return id == NVML_CLOCK_ID_CURRENT ? nvmlDeviceGetClockInfo(dev, type, mhz)
					   : NVML_ERROR_NOT_SUPPORTED;
}

enum nvml_return nvmlDeviceGetCurrPcieLinkGeneration(const struct nvml_device *dev,
						     unsigned *generation)
{
	return sensor(dev, SENSOR_PCIE_GENERATION, generation);
}

enum nvml_return nvmlDeviceGetCurrPcieLinkWidth(const struct nvml_device *dev,
						unsigned *width)
{
	return sensor(dev, SENSOR_PCIE_WIDTH, width);
}

enum nvml_return nvmlDeviceGetMaxPcieLinkGeneration(const struct nvml_device *dev,
						    unsigned *generation)
{
	return sensor(dev, SENSOR_PCIE_MAX_GENERATION, generation);
}

enum nvml_return nvmlDeviceGetGpuMaxPcieLinkGeneration(const struct nvml_device *dev,
						       unsigned *generation)
{
	return sensor(dev, SENSOR_PCIE_MAX_GENERATION, generation);
}

enum nvml_return nvmlDeviceGetMaxPcieLinkWidth(const struct nvml_device *dev,
					       unsigned *width)
{
	return sensor(dev, SENSOR_PCIE_MAX_WIDTH, width);
}

/* As sensor(), for callers that want 64 bits. */
static enum nvml_return wide_sensor(const struct nvml_device *dev, enum sensor which,
				    unsigned long long *out)
{
	unsigned value;
	enum nvml_return r = sensor(dev, which, out ? &value : NULL);

	if (r == NVML_SUCCESS)
		*out = value;
	return r;
}

enum nvml_return nvmlDeviceGetCurrentClocksEventReasons(const struct nvml_device *dev,
							unsigned long long *reasons)
{
	return wide_sensor(dev, SENSOR_CLOCK_REASONS, reasons);
}

enum nvml_return nvmlDeviceGetSupportedClocksEventReasons(const struct nvml_device *dev,
							  unsigned long long *reasons)
{
	return wide_sensor(dev, SENSOR_CLOCK_REASONS_KNOWN, reasons);
}

enum nvml_return nvmlDeviceGetSupportedClocksThrottleReasons(
	const struct nvml_device *dev, unsigned long long *reasons)
{
	return nvmlDeviceGetSupportedClocksEventReasons(dev, reasons);
}

enum nvml_return nvmlDeviceGetTotalEccErrors(const struct nvml_device *dev,
					     unsigned uncorrected, unsigned ever,
					     unsigned long long *count)
{
	if (uncorrected > 1 || ever > 1)
		return NVML_ERROR_INVALID_ARGUMENT;
	return wide_sensor(dev, SENSOR_ECC_CORRECTED + uncorrected + 2 * ever, count);
}

enum nvml_return nvmlDeviceGetCurrentClocksThrottleReasons(const struct nvml_device *dev,
							   unsigned long long *reasons)
{
	return nvmlDeviceGetCurrentClocksEventReasons(dev, reasons);
}

enum nvml_return nvmlDeviceGetBrand(const struct nvml_device *dev, unsigned *brand)
{
	enum nvml_return r = sensor(dev, SENSOR_BRAND, brand);

	if (r != NVML_ERROR_NOT_SUPPORTED)
		return r;
	*brand = NVML_BRAND_UNKNOWN;
	return NVML_SUCCESS;
}

enum nvml_return nvmlDeviceGetTotalEnergyConsumption(const struct nvml_device *dev,
						     unsigned long long *mj)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_enter(dev, mj, &info);
	uint32_t value[SENSOR_NUM];

	if (r == NVML_SUCCESS)
		r = nvml_session_sensors(value);
	if (r)
		return r;
	/* Low may have all bits set; high has not in any GPU's life. */
	if (value[SENSOR_ENERGY_HIGH] == SENSOR_NONE)
		return NVML_ERROR_NOT_SUPPORTED;
	*mj = (unsigned long long)value[SENSOR_ENERGY_HIGH] << 32 |
	      value[SENSOR_ENERGY_LOW];
	return NVML_SUCCESS;
}

/* There is a limit, so somebody keeps to it. */
enum nvml_return nvmlDeviceGetPowerManagementMode(const struct nvml_device *dev,
						  unsigned *mode)
{
	unsigned mw;
	enum nvml_return r = nvmlDeviceGetEnforcedPowerLimit(dev, mode ? &mw : NULL);

	if (r == NVML_SUCCESS)
		*mode = NVML_FEATURE_ENABLED;
	return r;
}
