# Included by tests/backend/CMakeLists.txt. The contract of src/backend/cuda/platform.hpp, once against the twin
# that stands for a GPU in tests, and once against a GPU.
set(_twin ${CMAKE_SOURCE_DIR}/tests/support/cuda_twin)
vaecf_test(cuda_platform_twin_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_platform_test.cpp ${CMAKE_CURRENT_LIST_DIR}/cuda_platform_matmul_test.cpp
          ${CMAKE_SOURCE_DIR}/src/backend/cuda/start_rows.cpp
          ${_twin}/device.cpp ${_twin}/products.cpp ${_twin}/queue.cpp
  LIBRARIES vaecf_math vaecf_base)
vaecf_test_holds_kernels(cuda_platform_twin_test)
target_include_directories(cuda_platform_twin_test PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_compile_definitions(cuda_platform_twin_test PRIVATE VAECF_CUDA_TWIN)

if(VAECF_HAS_CUDA)
  vaecf_test(cuda_platform_gpu_test NEEDS_GPU SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_platform_gpu_test.cu
             LIBRARIES vaecf_backend vaecf_cuda_flags vaecf_cudart)
  target_include_directories(cuda_platform_gpu_test PRIVATE ${CMAKE_SOURCE_DIR}/src)

  vaecf_test(cuda_errors_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_errors_test.cpp
             ${CMAKE_CURRENT_LIST_DIR}/cuda_library_test.cpp LIBRARIES vaecf_backend vaecf_cudart vaecf_cublaslt)
  target_include_directories(cuda_errors_test PRIVATE ${CMAKE_SOURCE_DIR}/src)
endif()
