/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: beginning and end, versions, names of errors. */
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "nvml_calls.h"
#include "nvml_session.h"

/* Version that the libcuda.so.1 beside this library tells, whatever newer driver the host
 * has. */
#define CUDA_VERSION_MAX 13000

enum nvml_return nvmlInit_v2(void)
{
	return nvml_session_open();
}

enum nvml_return nvmlInit(void)
{
	return nvml_session_open();
}

enum nvml_return nvmlInitWithFlags(unsigned flags)
{
	return flags & ~NVML_INIT_FLAGS_ALL ? NVML_ERROR_INVALID_ARGUMENT
					    : nvml_session_open();
}

enum nvml_return nvmlShutdown(void)
{
	return nvml_session_close();
}

const char *nvmlErrorString(enum nvml_return r)
{
	static const char *const texts[] = {
		[0] = "Success",
		[1] = "Uninitialized",
		[2] = "Invalid Argument",
		[3] = "Not Supported",
		[4] = "Insufficient Permissions",
		[5] = "Already Initialized",
		[6] = "Not Found",
		[7] = "Insufficient Size",
		[8] = "Insufficient External Power",
		[9] = "Driver Not Loaded",
		[10] = "Timeout",
		[11] = "Interrupt Request Issue",
		[12] = "NVML Shared Library Not Found",
		[13] = "Function Not Found",
		[14] = "Corrupted infoROM",
		[15] = "GPU is lost",
		[16] = "GPU requires reset",
		[17] = "GPU access blocked by the operating system",
		[18] = "Driver/library version mismatch",
		[19] = "In use by another client",
		[20] = "Insufficient Memory",
		[21] = "No data",
		[22] = "vGPU ECC not supported",
		[23] = "Insufficient Resources",
		[24] = "Invalid Frequency",
		[25] = "Argument version mismatch",
		[26] = "Requested functionality has been deprecated",
		[27] = "System is not in ready state",
		[28] = "No supported GPUs were found",
		[29] = "Resource not in correct state to perform requested operation",
		[30] = "Reset type is not supported for given device",
	};

	return (unsigned)r < ARRAY_SIZE(texts) ? texts[r] : "Unknown Error";
}

enum nvml_return nvml_copy_text(char *to, unsigned room, const char *text)
{
	if (!to)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (strlen(text) >= room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(to, text);
	return NVML_SUCCESS;
}

/* The host's driver: the guest has none of its own. */
enum nvml_return nvmlSystemGetDriverVersion(char *version, unsigned length)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_session_info(&info);

	return r ? r : nvml_copy_text(version, length, (const char *)info->driver);
}

/* NVML's version is the CUDA version's first number and the driver's version. */
enum nvml_return nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_session_info(&info);
	char text[sizeof(info->driver) + 16];

	if (r)
		return r;
	snprintf(text, sizeof(text), "%d.%s", info->driver_version / 1000,
		 (const char *)info->driver);
	return nvml_copy_text(version, length, text);
}

/* Needs no nvmlInit. */
enum nvml_return nvmlSystemGetCudaDriverVersion(int *version)
{
	const struct session_open_rep *info;

	if (!version)
		return NVML_ERROR_INVALID_ARGUMENT;
	*version = CUDA_VERSION_MAX;
	if (nvml_session_info(&info) == NVML_SUCCESS)
		*version = MIN(info->driver_version, CUDA_VERSION_MAX);
	return NVML_SUCCESS;
}

enum nvml_return nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	return nvmlSystemGetCudaDriverVersion(version);
}

/* Names processes of this machine only. */
enum nvml_return nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length)
{
	const struct session_open_rep *info;
	enum nvml_return r = nvml_session_info(&info);
	char path[32];
	size_t n;
	FILE *f;

	if (r)
		return r;
	if (!name || !length)
		return NVML_ERROR_INVALID_ARGUMENT;
	snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	f = fopen(path, "re");
	if (!f)
		return NVML_ERROR_NOT_FOUND;
	n = fread(name, 1, length - 1, f);
	fclose(f);
	name[n] = '\0'; /* arguments are separated by NUL: this leaves the program */
	return NVML_SUCCESS;
}
