# Included at the end of tests/device/CMakeLists.txt. Tests that need a GPU are separate programs: without a GPU they are
# skipped, or fail if VAECF_REQUIRE_GPU=1.
vaecf_test(cuda_device_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda/cuda_device_test.cpp LIBRARIES vaecf_device)
target_compile_definitions(cuda_device_test PRIVATE VAECF_TEST_HAS_CUDA=$<BOOL:${VAECF_HAS_CUDA}>)

# The host emulation: the operations and kernels of the CUDA device as plain C++ on host memory, for machines without
# GPU and CUDA. Its objects replace those in vaecf_device. Only cuda::make_device() refers to the latter; a program with the
# emulation defines its own.
add_library(vaecf_cuda_emulator OBJECT
  ${VAECF_CUDA_OP_SOURCES}
  ${CMAKE_SOURCE_DIR}/tests/support/cuda_emulator/device.cpp
  ${CMAKE_SOURCE_DIR}/tests/support/cuda_emulator/matmuls.cpp
  ${CMAKE_SOURCE_DIR}/tests/support/cuda_emulator/stream.cpp)
set_source_files_properties(${VAECF_CUDA_OP_SOURCES} PROPERTIES LANGUAGE CXX)
# Optimized in every build, because it processes 20,108 items by 600 columns. Under sanitizers, -Og is as fast and
# compiles faster.
target_compile_options(vaecf_cuda_emulator PRIVATE $<IF:$<BOOL:${VAECF_SANITIZE}>,-Og,-O1>)
set_source_files_properties(${CMAKE_SOURCE_DIR}/tests/support/cuda_emulator/matmuls.cpp
  PROPERTIES COMPILE_OPTIONS "-O3;-ffp-contract=fast")
target_compile_definitions(vaecf_cuda_emulator PUBLIC VAECF_CUDA_EMULATOR)
target_include_directories(vaecf_cuda_emulator PUBLIC
  ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(vaecf_cuda_emulator PUBLIC vaecf_math vaecf_base PRIVATE vaecf_flags)

# Sizes and exchanges of the CUDA device only.
vaecf_test_objects(vaecf_contract_cuda
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/contract/contract_test_cuda_layers.cpp ${CMAKE_CURRENT_LIST_DIR}/contract/contract_test_cuda_slices.cpp
  LIBRARIES vaecf_math)
vaecf_test(contract_cuda_emulated_test IN_PARTS
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/contract/contract_cuda_emulated.cpp
  LIBRARIES vaecf_contract vaecf_contract_cuda vaecf_contract_support vaecf_reference_ops vaecf_cuda_emulator vaecf_thread_ranks
  # fp32 and fp16 are representative; item slices and blocks of users exchange and add in fp32. ExtremeLogits has other values
  # in the sizes of AgainstFp64 and NonFiniteLogits. Other tests rank scores of fp16. With fp16, PopularItems sums rows of both
  # precisions.
  NOT_SANITIZED *cuda_emulated_tf32 *cuda_emulated_bf16* *cuda_emulated_host_rows *BlocksOfUsers*/cuda_emulated_fp16
                *ExtremeLogits* *AreThoseOfAllItems*/cuda_emulated_fp16 *PopularItems*/cuda_emulated_fp32)

# Graphs, and users' rows.
vaecf_test(cuda_emulator_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_emulator/cuda_emulator_test.cpp ${CMAKE_CURRENT_LIST_DIR}/cuda_emulator/cuda_emulated_rows_test.cpp
  LIBRARIES vaecf_cuda_emulator)

# The contract of src/device/cuda/platform/, compiled once for the host emulation and the GPU.
vaecf_test_objects(vaecf_platform_contract
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_emulator/cuda_platform_test.cpp ${CMAKE_CURRENT_LIST_DIR}/cuda_emulator/cuda_platform_matmul_test.cpp
  LIBRARIES vaecf_math vaecf_base)
target_include_directories(vaecf_platform_contract PRIVATE ${CMAKE_SOURCE_DIR}/src)
# Contains fp64 products of plain loops, so it is optimized in every build.
target_compile_options(vaecf_platform_contract PRIVATE -O1)
set_target_properties(vaecf_platform_contract PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)  # it is built without optimization
vaecf_test(cuda_platform_emulated_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda_emulator/cuda_platform_emulated.cpp ${CMAKE_CURRENT_LIST_DIR}/cuda_emulator/cuda_platform_kernels.cpp
  LIBRARIES vaecf_platform_contract vaecf_cuda_emulator)
vaecf_test_compiles_kernels(cuda_platform_emulated_test)

if(VAECF_HAS_CUDA)
  vaecf_test(contract_cuda_test NEEDS_GPU SOURCES ${CMAKE_CURRENT_LIST_DIR}/contract/contract_cuda.cpp
             LIBRARIES vaecf_contract vaecf_contract_cuda vaecf_contract_support vaecf_reference_ops vaecf_thread_ranks vaecf_device vaecf_cudart)
  # Its products replace those in vaecf_device.
  vaecf_test(contract_cuda_plain_test NEEDS_GPU
             SOURCES ${CMAKE_CURRENT_LIST_DIR}/contract/contract_cuda.cpp ${CMAKE_CURRENT_LIST_DIR}/cuda/plain_matmuls.cu
             LIBRARIES vaecf_contract vaecf_contract_cuda vaecf_contract_support vaecf_reference_ops vaecf_thread_ranks vaecf_device vaecf_cuda_flags vaecf_cudart)
  target_include_directories(contract_cuda_plain_test PRIVATE ${CMAKE_SOURCE_DIR}/src)
  vaecf_test(cuda_platform_gpu_test NEEDS_GPU
             SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda/cuda_inverse_test.cpp ${CMAKE_CURRENT_LIST_DIR}/cuda_emulator/cuda_platform_gpu.cpp ${CMAKE_CURRENT_LIST_DIR}/cuda_emulator/cuda_platform_kernels.cu
             LIBRARIES vaecf_platform_contract vaecf_device vaecf_cuda_flags vaecf_cudart)
  vaecf_test(cuda_errors_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/cuda/cuda_errors_test.cpp
             LIBRARIES vaecf_device vaecf_cudart vaecf_cublaslt vaecf_cusparse)
  target_include_directories(cuda_platform_gpu_test PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_include_directories(cuda_errors_test PRIVATE ${CMAKE_SOURCE_DIR}/src)
endif()
