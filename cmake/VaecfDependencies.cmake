# Every library the program stands on, each found once. Which module may use which: tests/layering.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(MPI REQUIRED COMPONENTS C)
find_package(HDF5 REQUIRED COMPONENTS C)
find_package(yaml-cpp REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

# Debian's dnnl-config.cmake asks for OpenCL headers that nothing here needs, so look for the files themselves.
find_library(VAECF_DNNL_LIBRARY dnnl REQUIRED)
find_path(VAECF_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp REQUIRED)
add_library(vaecf_dnnl INTERFACE)
target_link_libraries(vaecf_dnnl INTERFACE ${VAECF_DNNL_LIBRARY})
target_include_directories(vaecf_dnnl SYSTEM INTERFACE ${VAECF_DNNL_INCLUDE})

find_library(VAECF_XXHASH_LIBRARY xxhash REQUIRED)
find_path(VAECF_XXHASH_INCLUDE xxhash.h REQUIRED)
add_library(vaecf_xxhash INTERFACE)
target_link_libraries(vaecf_xxhash INTERFACE ${VAECF_XXHASH_LIBRARY})
target_include_directories(vaecf_xxhash SYSTEM INTERFACE ${VAECF_XXHASH_INCLUDE})

find_package(LibArchive REQUIRED)
add_library(vaecf_archive INTERFACE)
target_link_libraries(vaecf_archive INTERFACE LibArchive::LibArchive)

# libbson 2 has its release in the folder of its headers, which its package knows; 1.x is looked for by file.
add_library(vaecf_bson INTERFACE)
find_package(bson 2 CONFIG QUIET)
if(TARGET bson::shared)
  target_link_libraries(vaecf_bson INTERFACE bson::shared)
else()
  find_library(VAECF_BSON_LIBRARY bson-1.0 REQUIRED)
  find_path(VAECF_BSON_INCLUDE bson/bson.h PATH_SUFFIXES libbson-1.0 REQUIRED)
  target_link_libraries(vaecf_bson INTERFACE ${VAECF_BSON_LIBRARY})
  target_include_directories(vaecf_bson SYSTEM INTERFACE ${VAECF_BSON_INCLUDE})
endif()

# Of the library only libcrypto.
find_package(OpenSSL 3.0 COMPONENTS Crypto)
if(NOT OPENSSL_FOUND)
  message(FATAL_ERROR "OpenSSL's libcrypto, 3.0 or later, is missing: launch/install build, or the package libssl-dev")
endif()

# The C++ bindings of MPI are long gone from the standard; their headers break C++20 builds.
add_library(vaecf_mpi INTERFACE)
target_link_libraries(vaecf_mpi INTERFACE MPI::MPI_C)
target_compile_definitions(vaecf_mpi INTERFACE OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)

# yaml-cpp 0.7 exports `yaml-cpp`, 0.8 `yaml-cpp::yaml-cpp`.
add_library(vaecf_yaml INTERFACE)
if(TARGET yaml-cpp::yaml-cpp)
  target_link_libraries(vaecf_yaml INTERFACE yaml-cpp::yaml-cpp)
else()
  target_link_libraries(vaecf_yaml INTERFACE yaml-cpp)
endif()
