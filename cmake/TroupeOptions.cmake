# Language level, warnings and sanitizers: everything that every target of ours shares, on one INTERFACE target.
include(CTest)
include(GNUInstallDirs)

option(TROUPE_WERROR "Treat warnings as errors (the presets switch it on)" OFF)
set(TROUPE_SANITIZE "" CACHE STRING "Sanitizers for every target, as for -fsanitize= (asan preset: address,undefined)")
set(TROUPE_CUDA AUTO CACHE STRING "The CUDA backend: AUTO (when the toolkit is there), ON or OFF")
set_property(CACHE TROUPE_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
  set(CMAKE_C_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()

add_library(troupe_options INTERFACE)
add_library(troupe::options ALIAS troupe_options)
target_include_directories(troupe_options INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_features(troupe_options INTERFACE cxx_std_20)
target_compile_options(troupe_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic>
  $<$<AND:$<BOOL:${TROUPE_WERROR}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>)
if(TROUPE_SANITIZE)
  # What UBSan finds ends the program, or a test would pass over it.
  target_compile_options(troupe_options INTERFACE -fsanitize=${TROUPE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(troupe_options INTERFACE -fsanitize=${TROUPE_SANITIZE})
endif()

# troupe_layer(NAME SOURCES... [DEPENDS targets...]): a static library `troupe_NAME` with the alias troupe::NAME.
function(troupe_layer name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  add_library(troupe_${name} STATIC ${arg_SOURCES})
  add_library(troupe::${name} ALIAS troupe_${name})
  target_link_libraries(troupe_${name} PUBLIC troupe::options ${arg_DEPENDS} PRIVATE ${arg_PRIVATE})
endfunction()
