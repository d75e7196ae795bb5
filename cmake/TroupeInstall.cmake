# What `cmake --install` adds to the program and the libraries: headers, the package that find_package(Troupe) finds, examples.
include(CMakePackageConfigHelpers)

install(DIRECTORY kernels tensor protocols actors apps DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/troupe"
        FILES_MATCHING PATTERN "*.hpp" PATTERN examples EXCLUDE)

set(troupe_package "${CMAKE_INSTALL_LIBDIR}/cmake/Troupe")
install(EXPORT Troupe FILE TroupeTargets.cmake NAMESPACE Troupe:: DESTINATION "${troupe_package}")
configure_package_config_file(cmake/TroupeConfig.cmake.in "${PROJECT_BINARY_DIR}/TroupeConfig.cmake" INSTALL_DESTINATION "${troupe_package}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/TroupeConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/TroupeConfig.cmake" "${PROJECT_BINARY_DIR}/TroupeConfigVersion.cmake" DESTINATION "${troupe_package}")

install(DIRECTORY config apps/examples DESTINATION "${CMAKE_INSTALL_DATADIR}/troupe" PATTERN "*.svg" EXCLUDE)
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
