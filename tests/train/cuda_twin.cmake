# Included at the end of tests/train/CMakeLists.txt: training on the twin of the CUDA backend, that is, its verbs
# and kernel bodies on the host. The twin's objects define what vaecf_backend's archive may define too, so that
# nothing is taken from there: linking fails, and nothing worse, should that ever clash.
vaecf_test(train_cuda_twin_test
  SOURCES cuda_twin_training_test.cpp clipping_test.cpp deterministic_test.cpp equivalence_test.cpp
          sharded_test.cpp checkpoint_test.cpp resume_test.cpp session_test.cpp evaluation_test.cpp cuda_twin_world.cpp
          ${CMAKE_SOURCE_DIR}/tests/support/thread_communicator.cpp
  LIBRARIES vaecf_cuda_twin vaecf_train)
