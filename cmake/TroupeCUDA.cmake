# Decides whether the CUDA backend is built: sets TROUPE_HAS_CUDA and enables the language.
set(TROUPE_CUDA_ARCHITECTURES "80-real;90" CACHE STRING
    "GPU architectures of the CUDA backend, as CMake names them: 90-real is machine code alone, 90 comes with PTX for later ones")
set(TROUPE_HAS_CUDA OFF)

if(TROUPE_CUDA STREQUAL "OFF")
  return()
endif()
if(TROUPE_SANITIZE)
  if(TROUPE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TROUPE_CUDA=ON and TROUPE_SANITIZE=${TROUPE_SANITIZE}: the sanitizers do not know nvcc's objects; use TROUPE_CUDA=OFF")
  endif()
  return()
endif()

set(CMAKE_CUDA_ARCHITECTURES "${TROUPE_CUDA_ARCHITECTURES}") # before the language: CMake would choose its own
if(CCACHE_PROGRAM AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()
include(CheckLanguage)
check_language(CUDA)
find_package(CUDAToolkit 12 QUIET)
if(CMAKE_CUDA_COMPILER AND TARGET CUDA::cublasLt)
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake 3.25 does not know that nvcc 13 has C++20
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(TROUPE_HAS_CUDA ON)
elseif(TROUPE_CUDA STREQUAL "ON")
  message(FATAL_ERROR "TROUPE_CUDA=ON, but nvcc or cuBLAS was not found: install the CUDA toolkit, or name nvcc with CMAKE_CUDA_COMPILER")
endif()
