# Finds CAF 0.18.7 with Troupe's patch. `./dev setup` builds it into a cached prefix that is named after the patch; any other
# CAF 0.18.7 that find_package finds wins if it carries the patch.
file(SHA256 "${PROJECT_SOURCE_DIR}/cmake/caf-0.18.7.patch" troupe_caf_patch)
string(SUBSTRING "${troupe_caf_patch}" 0 12 troupe_caf_patch)
set(troupe_cache "$ENV{XDG_CACHE_HOME}")
if(NOT troupe_cache)
  set(troupe_cache "$ENV{HOME}/.cache")
endif()
set(troupe_caf_suffix "")
if(TROUPE_SANITIZE MATCHES "thread")
  set(troupe_caf_suffix "-tsan") # an uninstrumented CAF yields false races
endif()
set(troupe_caf_prefix "${troupe_cache}/troupe/caf-0.18.7-${troupe_caf_patch}${troupe_caf_suffix}")

# Another patch means another prefix: forget the one that an earlier configuration found.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/caf-0.18.7.patch")
if(CAF_DIR MATCHES "/troupe/caf-0\\.18\\.7-" AND NOT CAF_DIR MATCHES "/caf-0\\.18\\.7-${troupe_caf_patch}${troupe_caf_suffix}/")
  unset(CAF_DIR CACHE)
  unset(TROUPE_CAF_IS_PATCHED CACHE)
endif()

find_package(CAF 0.18.7 COMPONENTS core io openssl QUIET HINTS "${troupe_caf_prefix}")
if(NOT CAF_FOUND)
  message(FATAL_ERROR "CAF 0.18.7 not found; run ./dev setup, which builds it into ${troupe_caf_prefix}")
endif()

include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES CAF::core)
check_cxx_source_compiles("#include <caf/actor_system_config.hpp>
int main() { return caf::actor_system_config::connection_hooks_type{}.admits != nullptr; }" TROUPE_CAF_IS_PATCHED)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NOT TROUPE_CAF_IS_PATCHED)
  message(FATAL_ERROR "the CAF in ${CAF_DIR} lacks cmake/caf-0.18.7.patch; run ./dev setup, or unset CAF_DIR/CMAKE_PREFIX_PATH")
endif()
