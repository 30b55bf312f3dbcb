// SPDX-License-Identifier: Apache-2.0
/* NVML: beginning and end, versions, names of errors. */
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "nvml_calls.h"
#include "nvml_session.h"

/* What libcuda.so.1 beside this library says, whatever newer driver the host has. */
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
	static const struct {
		enum nvml_return code;
		const char *text;
	} texts[] = {
		{NVML_SUCCESS, "Success"},
		{NVML_ERROR_UNINITIALIZED, "Uninitialized"},
		{NVML_ERROR_INVALID_ARGUMENT, "Invalid Argument"},
		{NVML_ERROR_NOT_SUPPORTED, "Not Supported"},
		{NVML_ERROR_NO_PERMISSION, "Insufficient Permissions"},
		{NVML_ERROR_NOT_FOUND, "Not Found"},
		{NVML_ERROR_INSUFFICIENT_SIZE, "Insufficient Size"},
		{NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"},
		{NVML_ERROR_TIMEOUT, "Timeout"},
		{NVML_ERROR_FUNCTION_NOT_FOUND, "Function Not Found"},
		{NVML_ERROR_GPU_IS_LOST, "GPU is lost"},
		{NVML_ERROR_LIB_RM_VERSION_MISMATCH, "Driver/library version mismatch"},
		{NVML_ERROR_MEMORY, "Insufficient Memory"},
		{NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "Argument version mismatch"},
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		if (texts[i].code == r)
			return texts[i].text;
	}
	return "Unknown Error";
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

/* Of this machine's own processes. */
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
