# Included at the end of tests/train/CMakeLists.txt: training on the twin of the CUDA backend, that is, its verbs
# and kernel bodies on the host. The twin's objects define what vaecf_device's archive may define too, so that
# nothing is taken from there: linking fails, and nothing worse, should that ever clash.
vaecf_test(train_cuda_twin_test
  SOURCES step/cuda_twin_training_test.cpp step/cuda_twin_recording_test.cpp step/cuda_twin_world.cpp
  LIBRARIES vaecf_cuda_twin vaecf_training_contract vaecf_thread_ranks vaecf_train
  NOT_SANITIZED Resume.* FeaturesResume.* Sharded.* Clipping.* Deterministic.* Benchmark.* Evaluation.*)
