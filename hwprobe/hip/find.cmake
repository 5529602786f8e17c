# The plugin that measures AMD GPUs, built from the CUDA plugin's sources where a clang that knows AMD's GPUs, HIP's
# headers and the device libraries of ROCm are. PLAN_HIP=AUTO leaves it out elsewhere, ON insists, OFF never looks.
# hipBLASLt and RCCL are loaded at run time, and their interfaces declared in hwprobe/hip/include.
set(PLAN_HAS_HIP FALSE)
if(PLAN_HIP STREQUAL "OFF")
  return()
endif()
set(rocm /opt/rocm $ENV{ROCM_PATH})
find_path(HIP_INCLUDE_DIR hip/hip_runtime.h HINTS ${rocm} PATH_SUFFIXES include)
find_library(HIP_LIBRARY amdhip64 HINTS ${rocm} PATH_SUFFIXES lib)
find_path(HIP_DEVICE_LIBRARIES ocml.bc HINTS ${rocm} /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}
  PATH_SUFFIXES amdgcn/bitcode lib/llvm/lib/clang/19/lib/amdgcn/bitcode)
# ROCm's own, else the one of the distribution that its libraries were made with: an older reads no newer's.
find_program(HIP_COMPILER NAMES amdclang++ clang++ HINTS ${rocm} PATH_SUFFIXES bin lib/llvm/bin llvm/bin NO_DEFAULT_PATH)
find_program(HIP_COMPILER NAMES clang++ PATHS /usr/lib/llvm-15/bin /usr/lib/llvm-16/bin /usr/lib/llvm-17/bin
  /usr/lib/llvm-18/bin /usr/lib/llvm-19/bin NO_DEFAULT_PATH)
if(NOT HIP_INCLUDE_DIR OR NOT HIP_LIBRARY OR NOT HIP_DEVICE_LIBRARIES OR NOT HIP_COMPILER)
  if(PLAN_HIP STREQUAL "ON")
    message(FATAL_ERROR "PLAN_HIP=ON needs clang from 15 on with lld, HIP's headers, libamdhip64 and the device libraries "
      "of ROCm: on Debian clang-15 clang-tools-15 lld-15 libamdhip64-dev rocm-device-libs")
  endif()
  return()
endif()
if(NOT PLAN_HIP_ARCHITECTURES)  # of the CDNA GPUs those that this compiler knows
  set(PLAN_HIP_ARCHITECTURES gfx908 gfx90a)
  foreach(architecture gfx942 gfx950)
    file(WRITE ${CMAKE_BINARY_DIR}/CMakeFiles/hip_architecture.hip "")
    execute_process(COMMAND ${HIP_COMPILER} -x hip -nogpuinc -nogpulib --cuda-device-only -S -o /dev/null
        --offload-arch=${architecture} ${CMAKE_BINARY_DIR}/CMakeFiles/hip_architecture.hip
      RESULT_VARIABLE unknown OUTPUT_QUIET ERROR_QUIET)
    if(NOT unknown)
      list(APPEND PLAN_HIP_ARCHITECTURES ${architecture})
    endif()
  endforeach()
endif()
execute_process(COMMAND ${HIP_COMPILER} -print-resource-dir OUTPUT_VARIABLE HIP_RESOURCES
  OUTPUT_STRIP_TRAILING_WHITESPACE)
set(PLAN_HAS_HIP TRUE)
