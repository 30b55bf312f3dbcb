/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real driver, loaded at run time: libcuda.so.1 is not linked, so that the same
 * program runs on machines without it. Members have the names that cuda.h gives the
 * functions (its macros choose the version): cu.cuMemcpyHtoDAsync(...).
 */
#ifndef WEFT_DEVICE_CUDA_DRIVER_H
#define WEFT_DEVICE_CUDA_DRIVER_H

#include <cuda.h>

#define CUDA_DRIVER_FUNCTIONS(X)                                                         \
	X(cuInit)                                                                        \
	X(cuDriverGetVersion)                                                            \
	X(cuGetExportTable)                                                              \
	X(cuGetErrorName)                                                                \
	X(cuDeviceGet)                                                                   \
	X(cuDeviceGetCount)                                                              \
	X(cuDeviceGetName)                                                               \
	X(cuDeviceGetUuid)                                                               \
	X(cuDeviceGetAttribute)                                                          \
	X(cuDeviceTotalMem)                                                              \
	X(cuDevicePrimaryCtxRetain)                                                      \
	X(cuDevicePrimaryCtxRelease)                                                     \
	X(cuDevicePrimaryCtxSetFlags)                                                    \
	X(cuCtxCreate)                                                                   \
	X(cuCtxDestroy)                                                                  \
	X(cuCtxSetCurrent)                                                               \
	X(cuCtxSynchronize)                                                              \
	X(cuCtxGetLimit)                                                                 \
	X(cuCtxSetLimit)                                                                 \
	X(cuMemGetInfo)                                                                  \
	X(cuMemAddressReserve)                                                           \
	X(cuMemAddressFree)                                                              \
	X(cuMemCreate)                                                                   \
	X(cuMemRelease)                                                                  \
	X(cuMemExportToShareableHandle)                                                  \
	X(cuMemImportFromShareableHandle)                                                \
	X(cuMemMap)                                                                      \
	X(cuMemUnmap)                                                                    \
	X(cuMemSetAccess)                                                                \
	X(cuMemGetAllocationGranularity)                                                 \
	X(cuMemGetAllocationPropertiesFromHandle)                                        \
	X(cuMemAlloc)                                                                    \
	X(cuMemFree)                                                                     \
	X(cuMemHostAlloc)                                                                \
	X(cuMemFreeHost)                                                                 \
	X(cuMemHostGetDevicePointer)                                                     \
	X(cuMemHostRegister)                                                             \
	X(cuMemHostUnregister)                                                           \
	X(cuMemcpyAsync)                                                                 \
	X(cuMemcpyHtoDAsync)                                                             \
	X(cuMemcpyDtoHAsync)                                                             \
	X(cuMemcpyDtoDAsync)                                                             \
	X(cuMemcpy2DAsync)                                                               \
	X(cuMemsetD8Async)                                                               \
	X(cuMemsetD16Async)                                                              \
	X(cuMemsetD32Async)                                                              \
	X(cuMemsetD2D8Async)                                                             \
	X(cuMemsetD2D16Async)                                                            \
	X(cuMemsetD2D32Async)                                                            \
	X(cuStreamCreateWithPriority)                                                    \
	X(cuStreamSetAttribute)                                                          \
	X(cuStreamBatchMemOp)                                                            \
	X(cuCtxRecordEvent)                                                              \
	X(cuCtxWaitEvent)                                                                \
	X(cuStreamDestroy)                                                               \
	X(cuStreamQuery)                                                                 \
	X(cuStreamSynchronize)                                                           \
	X(cuStreamWaitEvent)                                                             \
	X(cuStreamAddCallback)                                                           \
	X(cuStreamWaitValue32)                                                           \
	X(cuStreamWriteValue64)                                                          \
	X(cuEventCreate)                                                                 \
	X(cuEventDestroy)                                                                \
	X(cuEventRecord)                                                                 \
	X(cuEventQuery)                                                                  \
	X(cuEventSynchronize)                                                            \
	X(cuEventElapsedTime)                                                            \
	X(cuModuleLoadDataEx)                                                            \
	X(cuLinkCreate)                                                                  \
	X(cuLinkAddData)                                                                 \
	X(cuLinkComplete)                                                                \
	X(cuLinkDestroy)                                                                 \
	X(cuModuleUnload)                                                                \
	X(cuModuleGetFunction)                                                           \
	X(cuModuleGetFunctionCount)                                                      \
	X(cuModuleEnumerateFunctions)                                                    \
	X(cuModuleGetGlobal)                                                             \
	X(cuLibraryLoadData)                                                             \
	X(cuLibraryUnload)                                                               \
	X(cuLibraryGetKernel)                                                            \
	X(cuLibraryGetKernelCount)                                                       \
	X(cuLibraryEnumerateKernels)                                                     \
	X(cuLibraryGetModule)                                                            \
	X(cuLibraryGetGlobal)                                                            \
	X(cuKernelGetFunction)                                                           \
	X(cuFuncGetName)                                                                 \
	X(cuFuncGetAttribute)                                                            \
	X(cuFuncSetAttribute)                                                            \
	X(cuFuncGetParamInfo)                                                            \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)                          \
	X(cuOccupancyMaxActiveClusters)                                                  \
	X(cuOccupancyMaxPotentialClusterSize)                                            \
	X(cuLaunchKernelEx)                                                              \
	X(cuTensorMapEncodeTiled)                                                        \
	X(cuTensorMapEncodeIm2col)                                                       \
	X(cuTensorMapEncodeIm2colWide)                                                   \
	X(cuTensorMapReplaceAddress)                                                     \
	X(cuArray3DCreate)                                                               \
	X(cuArrayDestroy)                                                                \
	X(cuArrayGetMemoryRequirements)                                                  \
	X(cuMipmappedArrayCreate)                                                        \
	X(cuMipmappedArrayDestroy)                                                       \
	X(cuMipmappedArrayGetLevel)                                                      \
	X(cuMipmappedArrayGetMemoryRequirements)                                         \
	X(cuMemcpy3DAsync)                                                               \
	X(cuTexObjectCreate)                                                             \
	X(cuTexObjectDestroy)                                                            \
	X(cuSurfObjectCreate)                                                            \
	X(cuSurfObjectDestroy)                                                           \
	X(cuModuleGetTexRef)                                                             \
	X(cuModuleGetSurfRef)                                                            \
	X(cuTexRefSetArray)                                                              \
	X(cuTexRefSetMipmappedArray)                                                     \
	X(cuTexRefSetAddress)                                                            \
	X(cuTexRefSetAddress2D)                                                          \
	X(cuTexRefSetFormat)                                                             \
	X(cuTexRefSetAddressMode)                                                        \
	X(cuTexRefSetFilterMode)                                                         \
	X(cuTexRefSetMipmapFilterMode)                                                   \
	X(cuTexRefSetMipmapLevelBias)                                                    \
	X(cuTexRefSetMipmapLevelClamp)                                                   \
	X(cuTexRefSetMaxAnisotropy)                                                      \
	X(cuTexRefSetBorderColor)                                                        \
	X(cuTexRefSetFlags)                                                              \
	X(cuSurfRefSetArray)                                                             \
	X(cuGraphCreate)                                                                 \
	X(cuGraphDestroy)                                                                \
	X(cuGraphAddNode)                                                                \
	X(cuGraphGetNodes)                                                               \
	X(cuGraphDestroyNode)                                                            \
	X(cuGraphKernelNodeSetAttribute)                                                 \
	X(cuGraphInstantiateWithFlags)                                                   \
	X(cuGraphExecDestroy)                                                            \
	X(cuGraphExecKernelNodeSetParams)                                                \
	X(cuGraphExecNodeSetParams)                                                      \
	X(cuGraphNodeSetEnabled)                                                         \
	X(cuGraphNodeSetParams)                                                          \
	X(cuGraphLaunch)                                                                 \
	X(cuGraphUpload)                                                                 \
	X(cuGraphConditionalHandleCreate)

struct device_config;

struct cuda_driver {
	void *lib;
#define X(fn) __typeof__(fn) *fn;
	CUDA_DRIVER_FUNCTIONS(X)
#undef X
};

/* Valid after cuda_driver_load() returned 0, for the rest of the process. */
extern struct cuda_driver cu;

/*
 * Loads and initialises the driver, once, as a client of an MPS server if it is to be shared.
 * Returns 0, or -ENODEV if there is none, it is
 * too old (a function is missing), or it finds no device; the reason is logged at debug.
 * Any thread.
 */
int cuda_driver_load(const struct device_config *cfg);

#endif
