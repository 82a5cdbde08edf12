# Included by tests/backend/CMakeLists.txt. The contract of vaecf/backend/cuda/platform.hpp, compiled once and held by
# the twin that stands for a GPU in tests, and by a GPU.
vaecf_test_objects(vaecf_platform_contract
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_platform_test.cpp ${CMAKE_CURRENT_LIST_DIR}/cuda_platform_matmul_test.cpp
  LIBRARIES vaecf_math vaecf_base)
target_include_directories(vaecf_platform_contract PRIVATE ${CMAKE_SOURCE_DIR}/src)
# Products in fp64, one by one: optimised in every build.
target_compile_options(vaecf_platform_contract PRIVATE -O1)
set_target_properties(vaecf_platform_contract PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)  # they are read unoptimised
vaecf_test(cuda_platform_twin_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_platform_twin.cpp ${CMAKE_CURRENT_LIST_DIR}/cuda_platform_kernels.cpp
  LIBRARIES vaecf_platform_contract vaecf_cuda_twin)
vaecf_test_holds_kernels(cuda_platform_twin_test)

if(VAECF_HAS_CUDA)
  vaecf_test(cuda_platform_gpu_test NEEDS_GPU
             SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_platform_gpu.cpp ${CMAKE_CURRENT_LIST_DIR}/cuda_platform_kernels.cu
             LIBRARIES vaecf_platform_contract vaecf_backend vaecf_cuda_flags vaecf_cudart)
  target_include_directories(cuda_platform_gpu_test PRIVATE ${CMAKE_SOURCE_DIR}/src)

  vaecf_test(cuda_errors_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_errors_test.cpp
             ${CMAKE_CURRENT_LIST_DIR}/cuda_library_test.cpp LIBRARIES vaecf_backend vaecf_cudart vaecf_cublaslt)
  target_include_directories(cuda_errors_test PRIVATE ${CMAKE_SOURCE_DIR}/src)
endif()
