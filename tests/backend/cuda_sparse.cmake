# Included by tests/backend/CMakeLists.txt, behind cuda.cmake, whose twin it uses. Users' rows, batches and the
# sparse layer.
vaecf_test(cuda_twin_rows_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_twin_rows_test.cpp ${CMAKE_CURRENT_LIST_DIR}/cuda_twin_input_layer_test.cpp
  LIBRARIES vaecf_reference_verbs vaecf_cuda_twin)

# Without a GPU skipped, or failing where VAECF_REQUIRE_GPU=1.
if(VAECF_HAS_CUDA)
  vaecf_test(cuda_sparse_oracle_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_sparse_oracle_test.cpp
             LIBRARIES vaecf_backend vaecf_cudart vaecf_cusparse)
endif()
