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

# Most of the time of a source goes into headers that its neighbours read, too. So names in unnamed namespaces are unique in a folder;
# the preset `dev` compiles each source alone, for edits in one of them, and nightly builds it: each includes what it needs.
option(TROUPE_UNITY "Compile a dozen sources of a target as one: the first build takes less than half as long" ON)
if(TROUPE_UNITY)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # DEPEND: a source that is not in the cache goes to the compiler at once, which says what it read; else the preprocessor reads all first.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND};-E;env;CCACHE_DEPEND=true;${CCACHE_PROGRAM}")
  set(CMAKE_C_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}")
endif()

add_library(troupe_options INTERFACE)
# Installed, headers are found as in the tree: "actors/job.hpp". Warnings are ours alone, and so not for who uses it.
target_include_directories(troupe_options INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>"
                                                    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/troupe>")
target_compile_features(troupe_options INTERFACE cxx_std_20)
target_compile_options(troupe_options INTERFACE
  "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic>>"
  "$<BUILD_INTERFACE:$<$<AND:$<BOOL:${TROUPE_WERROR}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>>")
if(TROUPE_UNITY)
  # It means a type of a header, and takes every source of a batch for one. With more room than it allows itself, g++ looks less often
  # for what it can free, and takes a tenth less time.
  target_compile_options(troupe_options INTERFACE
    "$<BUILD_INTERFACE:$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage;--param=ggc-min-expand=200;--param=ggc-min-heapsize=500000>>")
endif()
if(TROUPE_WERROR AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND (TROUPE_SANITIZE OR CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13))
  # They guess at what inlined code may do, each version and each sanitizer otherwise: they are to be read, and keep nobody from building.
  target_compile_options(troupe_options INTERFACE
    "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wno-error=maybe-uninitialized;-Wno-error=array-bounds;-Wno-error=stringop-overflow>>")
endif()
if(TROUPE_SANITIZE)
  # What UBSan finds ends the program, or a test would pass over it.
  target_compile_options(troupe_options INTERFACE -fsanitize=${TROUPE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # Of a test's own code not each access is checked by UBSan: it takes twice as long to compile. What it tests is.
  target_compile_options(troupe_options INTERFACE
    "$<$<STREQUAL:$<TARGET_PROPERTY:FOLDER>,tests>:-fno-sanitize=null,alignment,object-size,vptr>")
  target_link_options(troupe_options INTERFACE -fsanitize=${TROUPE_SANITIZE})
endif()

# troupe_export(NAME): the target troupe_NAME is installed, and find_package(Troupe) gives it as Troupe::NAME; here that is an alias.
function(troupe_export name)
  add_library(troupe::${name} ALIAS troupe_${name})
  add_library(Troupe::${name} ALIAS troupe_${name})
  set_target_properties(troupe_${name} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS troupe_${name} EXPORT Troupe ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endfunction()
troupe_export(options)

# troupe_layer(NAME SOURCES... [DEPENDS targets...] [PRIVATE targets...]): a static library `troupe_NAME`, exported.
function(troupe_layer name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  add_library(troupe_${name} STATIC ${arg_SOURCES})
  target_link_libraries(troupe_${name} PUBLIC troupe::options ${arg_DEPENDS} PRIVATE ${arg_PRIVATE})
  troupe_export(${name})
endfunction()
