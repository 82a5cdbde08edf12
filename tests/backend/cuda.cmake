# Included at the end of tests/backend/CMakeLists.txt.
vaecf_test(cuda_device_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_device_test.cpp LIBRARIES vaecf_backend)
target_compile_definitions(cuda_device_test PRIVATE VAECF_TEST_HAS_CUDA=$<BOOL:${VAECF_HAS_CUDA}>)

# Programs of their own: without a GPU their tests are skipped, or fail where VAECF_REQUIRE_GPU=1.
if(VAECF_HAS_CUDA)
  vaecf_test(cuda_row_math_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_row_math_test.cu LIBRARIES vaecf_math
             vaecf_backend vaecf_cuda_flags vaecf_cudart)
  target_include_directories(cuda_row_math_test PRIVATE ${CMAKE_SOURCE_DIR}/src)
endif()
