# vaecf_add_module(NAME [COLD] [ALIGNMENT_SANITIZER] SOURCES ... DEPENDS ... LIBRARIES ...)
# One static library per module: DEPENDS are the modules below that it may include, LIBRARIES the outside
# libraries that it owns, which no user of the module gets to see. Every header is also compiled alone.
# COLD: a module that works once a run, which is built faster than it could ever save.
# ALIGNMENT_SANITIZER: a module that takes bytes for values: only there can sanitizers find misaligned access (tests/layering checks it).
function(vaecf_add_module name)
  cmake_parse_arguments(ARG "COLD;ALIGNMENT_SANITIZER" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  add_library(vaecf_${name} STATIC ${ARG_SOURCES})
  target_include_directories(vaecf_${name} PUBLIC ${CMAKE_SOURCE_DIR}/include PRIVATE ${CMAKE_SOURCE_DIR}/src)
  # The objects of the program are also those of libvaecf.so, which exports vaecf_* only (src/capi).
  set_target_properties(vaecf_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                                                 VISIBILITY_INLINES_HIDDEN ON)
  foreach(module IN LISTS ARG_DEPENDS)
    target_link_libraries(vaecf_${name} PUBLIC vaecf_${module})
  endforeach()
  target_link_libraries(vaecf_${name} PRIVATE ${ARG_LIBRARIES} vaecf_flags)
  if(ARG_COLD)
    target_compile_options(vaecf_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()

  if(VAECF_SANITIZE AND NOT ARG_ALIGNMENT_SANITIZER)
    target_compile_options(vaecf_${name} PRIVATE -fno-sanitize=alignment)
  endif()

  # Sanitizers would find nothing in it; and where files are compiled several at once, headers help each other out.
  if(VAECF_TESTS AND NOT VAECF_SANITIZE AND NOT CMAKE_UNITY_BUILD)
    file(GLOB_RECURSE headers RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS
         ${CMAKE_SOURCE_DIR}/include/vaecf/${name}/*.hpp ${CMAKE_SOURCE_DIR}/src/${name}/*.hpp)
    if(NOT VAECF_X86_64)
      list(FILTER headers EXCLUDE REGEX "avx512")
    endif()
    set(units)
    foreach(header IN LISTS headers)
      set(unit ${CMAKE_BINARY_DIR}/header_units/${header}.cpp)
      file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${CMAKE_SOURCE_DIR}/${header}\"\n")
      if(header MATCHES "device/cuda/(operations|platform/launch)")
        set_source_files_properties(${unit} PROPERTIES COMPILE_DEFINITIONS VAECF_CUDA_EMULATOR)
      elseif(header MATCHES "avx512")
        set_source_files_properties(${unit} PROPERTIES COMPILE_OPTIONS -march=sapphirerapids)
      endif()
      list(APPEND units ${unit})
    endforeach()
    if(units)
      add_library(vaecf_${name}_headers OBJECT ${units})
      target_include_directories(vaecf_${name}_headers PRIVATE
        $<TARGET_PROPERTY:vaecf_${name},INCLUDE_DIRECTORIES> ${CMAKE_SOURCE_DIR}/tests)
      target_compile_definitions(vaecf_${name}_headers PRIVATE $<TARGET_PROPERTY:vaecf_${name},COMPILE_DEFINITIONS>)
      target_compile_options(vaecf_${name}_headers PRIVATE $<TARGET_PROPERTY:vaecf_${name},COMPILE_OPTIONS>
                             -O0 -U_FORTIFY_SOURCE)  # there is nothing in them to optimize
      if(NOT TARGET headers)
        add_custom_target(headers)
      endif()
      add_dependencies(headers vaecf_${name}_headers)
    endif()
  endif()
endfunction()

# Flags of our own code: hardening as of Debian's packages, warnings, sanitizers.
add_library(vaecf_flags INTERFACE)
if(NOT VAECF_SANITIZE AND NOT VAECF_FUZZ)
  foreach(flag -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
    target_compile_options(vaecf_flags INTERFACE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:${flag}>)
  endforeach()
  add_link_options(LINKER:-z,relro,-z,now)
endif()
target_compile_options(vaecf_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wnon-virtual-dtor -Woverloaded-virtual>)
# GCC 12 takes `"text" + std::string` for overlapping copies (its bug 105651).
target_compile_options(vaecf_flags INTERFACE
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)
# GCC 13 takes a loop over `view().row(i)` for one over a dead temporary, though rows point into memory that lives on.
target_compile_options(vaecf_flags INTERFACE
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>>:-Wno-dangling-reference>)
# An expression has the same bits wherever it is compiled, also in a function for several instruction sets. By default GCC fuses
# products and sums where there is one instruction for both: on arm64, and on x86-64 with AVX2. Kernels that are as fast as they
# should be only with that instruction have -ffp-contract=fast.
target_compile_options(vaecf_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
                                             $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffp-contract=off>)
# Where files are compiled several at once, names of one shadow those of another, and sources pass for headers.
set(unity $<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>)
target_compile_options(vaecf_flags INTERFACE
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:${unity}>>:-Wshadow>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>,${unity}>:-Wshadow=local$<SEMICOLON>-Wno-subobject-linkage>)
# For large units GCC's collector runs more often than pays: up to a tenth of their time, for a fifth of memory more.
target_compile_options(vaecf_flags INTERFACE
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>,${unity}>:--param=ggc-min-heapsize=1048576>)
# In large units sanitizers make GCC warn of paths that are none.
if(VAECF_WERROR AND NOT (VAECF_SANITIZE AND CMAKE_UNITY_BUILD))
  target_compile_options(vaecf_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(VAECF_SANITIZE)
  # Null pointers, objects too small and objects of the past: AddressSanitizer sees them, and each check is compiled;
  # as is each of a pointer's sum, which wraps only where an access does.
  set(sanitizers -fsanitize=address,undefined -fno-sanitize=null,object-size,vptr,pointer-overflow
                 -fno-sanitize-recover=undefined)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${sanitizers};-fno-omit-frame-pointer>")
  add_link_options(-fsanitize=address,undefined)
endif()
