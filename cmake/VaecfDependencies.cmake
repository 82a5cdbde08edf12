# Every library the program uses, each found once, by find_package or find_library, so that CMAKE_PREFIX_PATH (or the
# modules of a cluster, which set it) is all that CMake requires. docs/INSTALL.md lists them; tests/layering: which module
# may use which.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(MPI REQUIRED COMPONENTS C)
find_package(HDF5 REQUIRED COMPONENTS C)

# One message names all that are missing.
set(missing)
foreach(package yaml-cpp fmt spdlog nlohmann_json CLI11)
  find_package(${package} CONFIG QUIET)
  if(NOT ${package}_FOUND)
    list(APPEND missing ${package})
  endif()
endforeach()
find_path(VAECF_XXHASH_INCLUDE xxhash.h)
if(NOT VAECF_XXHASH_INCLUDE)
  list(APPEND missing xxhash)
endif()
if(missing)
  list(JOIN missing ", " missing)
  message(FATAL_ERROR "These libraries are missing: ${missing}. Install them (Debian and Ubuntu: launch/install build; "
                      "elsewhere: launch/fetch-libraries PREFIX), and add their folder to CMAKE_PREFIX_PATH.")
endif()

option(VAECF_PORTABLE "Compile fmt, spdlog and a newer function of glibc into the program, as launch/wheel does" OFF)
if(VAECF_PORTABLE)
  set(vaecf_fmt fmt::fmt-header-only)
  set(vaecf_spdlog spdlog::spdlog_header_only)
else()
  set(vaecf_fmt fmt::fmt)
  set(vaecf_spdlog spdlog::spdlog)
endif()

# The C++ bindings of MPI are long gone from the standard; their headers break C++20 builds.
add_library(vaecf_mpi INTERFACE)
target_link_libraries(vaecf_mpi INTERFACE MPI::MPI_C)
target_compile_definitions(vaecf_mpi INTERFACE OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)

# The headers of parallel HDF5, which clusters often have, include mpi.h.
add_library(vaecf_hdf5 INTERFACE)
target_link_libraries(vaecf_hdf5 INTERFACE hdf5::hdf5)
if(HDF5_IS_PARALLEL)
  target_link_libraries(vaecf_hdf5 INTERFACE vaecf_mpi)
endif()
# CMake 3.25's target of a static HDF5 lacks the libraries that it requires.
if(HDF5_C_LIBRARIES MATCHES "libhdf5[^;]*\\.a")
  set(libraries ${HDF5_C_LIBRARIES})
  list(FILTER libraries EXCLUDE REGEX "libhdf5[^;]*\\.a$")
  target_link_libraries(vaecf_hdf5 INTERFACE ${libraries})
endif()

# yaml-cpp 0.7 exports `yaml-cpp`, 0.8 `yaml-cpp::yaml-cpp`.
add_library(vaecf_yaml INTERFACE)
if(TARGET yaml-cpp::yaml-cpp)
  target_link_libraries(vaecf_yaml INTERFACE yaml-cpp::yaml-cpp)
else()
  target_link_libraries(vaecf_yaml INTERFACE yaml-cpp)
endif()

# Only its header is used.
add_library(vaecf_xxhash INTERFACE)
target_include_directories(vaecf_xxhash SYSTEM INTERFACE ${VAECF_XXHASH_INCLUDE})
target_compile_definitions(vaecf_xxhash INTERFACE XXH_INLINE_ALL=1
  # Sanitizer builds do not inline what the header demands.
  $<$<BOOL:${VAECF_SANITIZE}>:XXH_NO_INLINE_HINTS=1>)

# The optional libraries. CMAKE_DISABLE_FIND_PACKAGE_(LibArchive, bson, dnnl) also excludes one.
foreach(name LIBARCHIVE LIBBSON ONEDNN)
  set(VAECF_WITH_${name} AUTO CACHE STRING "Build with this library: AUTO (if it is found), ON (or fail), OFF")
  set_property(CACHE VAECF_WITH_${name} PROPERTY STRINGS AUTO ON OFF)
endforeach()

# vaecf_optional(NAME TARGET WITHOUT LIBRARY...): makes TARGET of the library's targets or files. Sets VAECF_HAS_NAME, also
# as the macro of those who link TARGET, to 1 if there are any. WITHOUT says what the program lacks otherwise.
function(vaecf_optional name target without)
  add_library(${target} INTERFACE)
  set(has 0)
  if(ARGN)
    set(has 1)
    target_link_libraries(${target} INTERFACE ${ARGN})
  elseif(NOT VAECF_WITH_${name})
    message(STATUS "VAECF_WITH_${name} is ${VAECF_WITH_${name}}: ${without}")
  elseif(VAECF_WITH_${name} STREQUAL AUTO)
    message(WARNING "${name} was not found: ${without}. docs/INSTALL.md lists ways to install it; "
                    "-DVAECF_WITH_${name}=OFF hides this warning.")
  else()
    message(FATAL_ERROR "VAECF_WITH_${name} is ${VAECF_WITH_${name}}, but it was not found; install it, add its folder to "
                        "CMAKE_PREFIX_PATH, or set VAECF_WITH_${name} to AUTO or OFF.")
  endif()
  target_compile_definitions(${target} INTERFACE VAECF_HAS_${name}=${has})
  set(VAECF_HAS_${name} ${has} PARENT_SCOPE)
endfunction()

set(found)
if(VAECF_WITH_LIBARCHIVE)
  find_package(LibArchive QUIET)
  find_package(ZLIB QUIET)  # verifies the checksums of gzip, which libarchive does not
  if(LibArchive_FOUND AND ZLIB_FOUND)
    set(found LibArchive::LibArchive ZLIB::ZLIB)
  endif()
endif()
vaecf_optional(LIBARCHIVE vaecf_archive "the program cannot read compressed files and archives" ${found})

# libbson 2 has its release in the folder of its headers, which its package knows; 1.x is looked for by file.
set(found)
if(VAECF_WITH_LIBBSON AND NOT CMAKE_DISABLE_FIND_PACKAGE_bson)
  find_package(bson 2 CONFIG QUIET)
  find_library(VAECF_BSON_LIBRARY NAMES bson-1.0 bson-static-1.0)
  find_path(VAECF_BSON_INCLUDE bson/bson.h PATH_SUFFIXES libbson-1.0)
  if(TARGET bson::shared)
    set(found bson::shared)
  elseif(TARGET bson::static)
    set(found bson::static)
  elseif(VAECF_BSON_LIBRARY AND VAECF_BSON_INCLUDE)
    set(found ${VAECF_BSON_LIBRARY})
  endif()
endif()
vaecf_optional(LIBBSON vaecf_bson "the program cannot read the Pinterest boards" ${found})
if(found AND NOT bson_FOUND)
  target_include_directories(vaecf_bson SYSTEM INTERFACE ${VAECF_BSON_INCLUDE})
endif()

# Debian's dnnl-config.cmake asks for OpenCL headers that nothing here needs, so look for the files themselves.
set(found)
if(VAECF_WITH_ONEDNN AND NOT CMAKE_DISABLE_FIND_PACKAGE_dnnl)
  find_library(VAECF_DNNL_LIBRARY dnnl)
  find_path(VAECF_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp)
  if(VAECF_DNNL_LIBRARY AND VAECF_DNNL_INCLUDE)
    set(found ${VAECF_DNNL_LIBRARY})
  endif()
endif()
vaecf_optional(ONEDNN vaecf_dnnl "training on CPUs is several times slower; GPUs do not use it" ${found})
if(VAECF_HAS_ONEDNN)
  target_include_directories(vaecf_dnnl SYSTEM INTERFACE ${VAECF_DNNL_INCLUDE})
endif()
