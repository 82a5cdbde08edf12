# Included at the end of tests/training/CMakeLists.txt: training with the operations and kernel bodies of the CUDA device in
# host emulation. The objects of the emulation replace members of vaecf_device's archive of the same names. If a member
# were linked in addition, duplicate definitions would cause a link error.
vaecf_test(training_cuda_emulated_test
  SOURCES item_models/cuda_emulated_ease_test.cpp step/cuda_emulated_training_test.cpp step/cuda_emulated_capture_test.cpp step/cuda_emulated_copies_test.cpp step/run_on_ranks_cuda_emulator.cpp
  LIBRARIES vaecf_cuda_emulator vaecf_training_contract vaecf_thread_ranks vaecf_run vaecf_config
  # Of the tests that training_test runs too, the curves execute every operation of the emulated device.
  NOT_SANITIZED Resume.* */ResumeOf.* Sharded.* Clipping.* Deterministic.* Benchmark.* Evaluation.* MultiRankTest.* ItemModels.*
                StartFrom.* TestUsers.* Checkpoint.* AutomaticCheckpoints.* Features.*)
