# CAF's sources are compiled twenty as one, in a third of the time; these two use names that a neighbour uses, too.
cmake_language(DEFER CALL set_source_files_properties "${CMAKE_CURRENT_SOURCE_DIR}/libcaf_core/src/binary_serializer.cpp"
               DIRECTORY libcaf_core PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
cmake_language(DEFER CALL set_source_files_properties "${CMAKE_CURRENT_SOURCE_DIR}/libcaf_io/src/io/network/native_socket.cpp"
               DIRECTORY libcaf_io PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
