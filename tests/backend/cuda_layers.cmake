# Included by tests/backend/CMakeLists.txt, after cuda.cmake.
vaecf_test(cuda_layers_twin_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_layers_twin_test.cpp
  LIBRARIES vaecf_contract_support vaecf_cuda_twin)
