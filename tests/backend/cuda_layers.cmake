# Included by tests/backend/CMakeLists.txt, after cuda.cmake.
vaecf_test(cuda_layers_twin_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_layers_twin_test.cpp
  LIBRARIES vaecf_contract_support_cuda vaecf_reference_verbs vaecf_cuda_twin
  # Slices of several chunks in fp32, chunks in bf16: all that is read and written.
  NOT_SANITIZED *ChunksAndSlices*/cuda_twin_fp32 *ChunksAndSlices*/cuda_twin_bf16_small)
