# Finds what ./dev setup installs. Every dependency is named in README.md with its reason.
find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(CapnProto REQUIRED)
find_package(fmt REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(CLI11 REQUIRED)
find_package(tomlplusplus REQUIRED)
if(BUILD_TESTING)
  find_package(GTest REQUIRED)
endif()

find_library(TROUPE_OPENBLAS openblas REQUIRED)
find_path(TROUPE_OPENBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas openblas-pthread REQUIRED)
add_library(troupe_openblas INTERFACE)
add_library(troupe::openblas ALIAS troupe_openblas)
target_link_libraries(troupe_openblas INTERFACE "${TROUPE_OPENBLAS}")
target_include_directories(troupe_openblas SYSTEM INTERFACE "${TROUPE_OPENBLAS_INCLUDE}")

# Not find_package(dnnl): Debian's configuration asks for OpenCL's development files, which nothing here uses.
find_library(TROUPE_ONEDNN dnnl REQUIRED)
find_path(TROUPE_ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp REQUIRED)
add_library(troupe_onednn INTERFACE)
add_library(troupe::onednn ALIAS troupe_onednn)
target_link_libraries(troupe_onednn INTERFACE "${TROUPE_ONEDNN}")
target_include_directories(troupe_onednn SYSTEM INTERFACE "${TROUPE_ONEDNN_INCLUDE}")

include(TroupeCAF)
