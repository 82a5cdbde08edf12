# Included at the end of tests/training/CMakeLists.txt: training with the operations and kernel bodies of the CUDA device in
# host emulation. The objects of the emulation replace members of vaecf_device's archive of the same names. If a member
# were linked in addition, duplicate definitions would cause a link error.
vaecf_test(training_cuda_emulated_test
  SOURCES ../models/ease/cuda_emulated_ease_test.cpp cuda_emulated_capture_test.cpp cuda_emulated_copies_test.cpp
          cuda_emulated_training_test.cpp ../support/run_on_ranks_cuda_emulator.cpp
  LIBRARIES vaecf_cuda_emulator vaecf_training_contract vaecf_item_models_contract vaecf_checkpoint_contract
            vaecf_evaluate_contract vaecf_run_contract vaecf_thread_ranks vaecf_run vaecf_config
  NOT_SANITIZED
    Resume.* */ResumeOf.* Sharded.* Clipping.* Deterministic.* Benchmark.* Evaluation.*
    # What these test is code of the host, which programs on the CPU execute; EaseOnGpus has the device's part of solved models, and
    # Checkpoint that of copies of weights.
    ItemModels.* StartFrom.* TestUsers.* Session.* AutomaticCheckpoints.* RecVaeSteps.Resume* MultiRankTest.Overlap*
    # Of the curves, those of mult_vae, recvae, elsa, autoencoder, features and weighted remain.
    Training/Curve.*/mult_dae* Training/Curve.*/rmsprop* Training/Curve.*/clipped* Training/Curve.*/one_bucket*
    Training/Curve.*/last_batch* Training/Curve.*/groups* Training/Curve.*/users_with* Training/Curve.*/library* Training/Curve.*/weighted_*)
