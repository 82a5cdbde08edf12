# Included by tests/backend/CMakeLists.txt, after cuda.cmake.
vaecf_test(cuda_layers_twin_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_layers_twin_test.cpp ${CMAKE_CURRENT_LIST_DIR}/contract.cpp
          ${CMAKE_SOURCE_DIR}/tests/support/reference_verbs.cpp ${CMAKE_SOURCE_DIR}/src/backend/parameters.cpp
  LIBRARIES vaecf_cuda_twin)
