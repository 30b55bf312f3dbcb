/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sensors of a device, by number, in the reply to device_sensors: the worker fills it in
 * from the driver, the guest's libnvidia-ml.so.1 gives it out. A device that lacks one
 * says so; nobody makes values up.
 */
#ifndef WEFT_SENSOR_H
#define WEFT_SENSOR_H

#include <stdint.h>

#define SENSOR_NONE UINT32_MAX /* the device has no such sensor, or does not tell */

enum sensor {
	SENSOR_TEMPERATURE,          /* degrees Celsius, of the GPU */
	SENSOR_TEMPERATURE_SHUTDOWN, /* thresholds */
	SENSOR_TEMPERATURE_SLOWDOWN,
	SENSOR_TEMPERATURE_MAX,
	SENSOR_TEMPERATURE_MEMORY_MAX,
	SENSOR_POWER,          /* milliwatts drawn */
	SENSOR_POWER_ENFORCED, /* the limit in force */
	SENSOR_POWER_LIMIT,    /* the limit that was set */
	SENSOR_POWER_DEFAULT,
	SENSOR_POWER_MIN,
	SENSOR_POWER_MAX,
	SENSOR_FAN,            /* per cent of the highest speed */
	SENSOR_CLOCK_GRAPHICS, /* MHz now; in the order of nvmlClockType_t */
	SENSOR_CLOCK_SM,
	SENSOR_CLOCK_MEMORY,
	SENSOR_CLOCK_VIDEO,
	SENSOR_MAX_CLOCK_GRAPHICS, /* the highest there is, same order */
	SENSOR_MAX_CLOCK_SM,
	SENSOR_MAX_CLOCK_MEMORY,
	SENSOR_MAX_CLOCK_VIDEO,
	SENSOR_PERFORMANCE_STATE, /* 0 is the fastest */
	SENSOR_CLOCK_REASONS,     /* why clocks are not higher, a bit set of NVML's */
	SENSOR_PCIE_GENERATION,   /* of the link now */
	SENSOR_PCIE_WIDTH,
	SENSOR_PCIE_MAX_GENERATION,
	SENSOR_PCIE_MAX_WIDTH,
	SENSOR_TEMPERATURE_MEMORY,
	SENSOR_POWER_INSTANT,       /* SENSOR_POWER is averaged over a second */
	SENSOR_CLOCK_REASONS_KNOWN, /* which of the reasons the device tells of */
	SENSOR_ECC_CORRECTED,       /* errors since the driver was loaded */
	SENSOR_ECC_UNCORRECTED,
	SENSOR_ECC_CORRECTED_EVER, /* and over the device's life; same order */
	SENSOR_ECC_UNCORRECTED_EVER,
	SENSOR_ENERGY_LOW, /* millijoules since the driver was loaded, in two halves */
	SENSOR_ENERGY_HIGH,
	SENSOR_BRAND, /* no measure, but a number that only the device knows */
	SENSOR_NUM
};

#define SENSOR_ROOM 48 /* on the wire */

#endif
