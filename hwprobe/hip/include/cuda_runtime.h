// The CUDA runtime's names, as the plugin's sources write them, over AMD's HIP: the two interfaces agree but for
// spelling. This folder is searched in place of the CUDA toolkit's, and only for the plugin that measures AMD GPUs.
// Source: HIP porting guide of the ROCm documentation.
#pragma once

#include <hip/hip_runtime.h>

// Types.
#define cudaDeviceProp hipDeviceProp_t
#define cudaError_t hipError_t
#define cudaEvent_t hipEvent_t
#define cudaFuncAttributes hipFuncAttributes
#define cudaMemcpyKind hipMemcpyKind
#define cudaStream_t hipStream_t
// Values.
#define cudaErrorIllegalAddress hipErrorIllegalAddress
#define cudaErrorInvalidConfiguration hipErrorInvalidConfiguration
#define cudaErrorInvalidDevice hipErrorInvalidDevice
#define cudaErrorInvalidValue hipErrorInvalidValue
#define cudaErrorMemoryAllocation hipErrorOutOfMemory
#define cudaErrorNoKernelImageForDevice hipErrorNoBinaryForGpu
#define cudaErrorNotReady hipErrorNotReady
#define cudaErrorPeerAccessAlreadyEnabled hipErrorPeerAccessAlreadyEnabled
#define cudaEventDisableTiming hipEventDisableTiming
#define cudaHostAllocDefault hipHostMallocDefault
#define cudaHostAllocMapped \
  (hipHostMallocMapped | hipHostMallocCoherent)  // a kernel sees what the host writes meanwhile
#define cudaMemcpyDeviceToDevice hipMemcpyDeviceToDevice
#define cudaMemcpyDeviceToHost hipMemcpyDeviceToHost
#define cudaMemcpyHostToDevice hipMemcpyHostToDevice
#define cudaStreamNonBlocking hipStreamNonBlocking
#define cudaSuccess hipSuccess
// Functions.
#define cudaDeviceCanAccessPeer hipDeviceCanAccessPeer
#define cudaDeviceEnablePeerAccess hipDeviceEnablePeerAccess
#define cudaDeviceGetPCIBusId hipDeviceGetPCIBusId
#define cudaDeviceSynchronize hipDeviceSynchronize
#define cudaDriverGetVersion hipDriverGetVersion
#define cudaEventCreate hipEventCreate
#define cudaEventCreateWithFlags hipEventCreateWithFlags
#define cudaEventDestroy hipEventDestroy
#define cudaEventElapsedTime hipEventElapsedTime
#define cudaEventRecord hipEventRecord
#define cudaFree hipFree
#define cudaFreeHost hipHostFree
#define cudaGetDeviceCount hipGetDeviceCount
#define cudaGetDeviceProperties hipGetDeviceProperties
#define cudaGetErrorString hipGetErrorString
#define cudaGetLastError hipGetLastError
#define cudaHostAlloc hipHostMalloc
#define cudaLaunchKernel hipLaunchKernel
#define cudaMalloc hipMalloc
#define cudaMemGetInfo hipMemGetInfo
#define cudaMemcpy hipMemcpy
#define cudaMemcpyAsync hipMemcpyAsync
#define cudaMemcpyPeerAsync hipMemcpyPeerAsync
#define cudaMemsetAsync hipMemsetAsync
#define cudaRuntimeGetVersion hipRuntimeGetVersion
#define cudaSetDevice hipSetDevice
#define cudaStreamCreateWithFlags hipStreamCreateWithFlags
#define cudaStreamQuery hipStreamQuery
#define cudaStreamWaitEvent hipStreamWaitEvent

/// The toolkit's version in CUDA's manner: 6020 for ROCm 6.2.
#define CUDART_VERSION (HIP_VERSION_MAJOR * 1000 + HIP_VERSION_MINOR * 10)

#ifndef __HIPCC__
#define cudaFuncGetAttributes hipFuncGetAttributes
#else
template <class Kernel>
hipError_t cudaFuncGetAttributes(hipFuncAttributes* attributes, Kernel* kernel) {
  return hipFuncGetAttributes(attributes, reinterpret_cast<const void*>(kernel));
}

/// Exchanges among 32 neighbours stay among them in a wave of 64 as well, which runs in step.
#define __shfl_xor_sync(mask, value, lane) __shfl_xor(value, lane)

/// A steady clock of 100 MHz in place of one that counts some 2 GHz.
__device__ inline long long plan_clock() {
#ifdef __HIP_DEVICE_COMPILE__
  return 20 * static_cast<long long>(wall_clock64());
#else
  return 0;
#endif
}
#define clock64 plan_clock
#endif
