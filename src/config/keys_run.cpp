#include "config/key_making.hpp"

namespace vaecf::config {

void add_run_keys(Keys& keys) {
  add(keys, "validation.every", FIELD(session.validation.every), "epochs between validations; 0: never",
      at_least<i64>(0));
  add(keys, "validation.metrics", FIELD(session.validation.metrics), "what validation and test report",
      metric_list());
  add(keys, "validation.select", FIELD(session.validation.select),
      "which of the metrics picks best.h5; last: the last epoch is taken", selection());
  add(keys, "run.directory", FIELD(session.run.directory), "where run folders go", not_empty());
  add_alternative(
      keys, "run.checkpoint_every.epochs", FIELD(session.run.checkpoint_every.epochs),
      "epochs between checkpoints to go on from, also given as run.checkpoint_every: 1; 0: none but the best",
      at_least<i64>(0));
  keys.back().stands_for_section = true;
  add_alternative(keys, "run.checkpoint_every.steps", FIELD(session.run.checkpoint_every.steps),
                  "or updates between them", at_least<i64>(1));
  add_alternative(keys, "run.checkpoint_every.minutes", FIELD(session.run.checkpoint_every.minutes),
                  "or minutes between them, for epochs that are over faster than a checkpoint is written",
                  positive());
  add(keys, "run.keep", FIELD(session.run.keep), "how many of them stay, the newest, beside best.h5",
      at_least<i64>(1));
  add(keys, "benchmark.seconds", FIELD(session.benchmark.seconds),
      "of --benchmark's timed steps; train.epochs epochs where that is less, 20 steps at least", positive());
  add(keys, "benchmark.warm_up_seconds", FIELD(session.benchmark.warm_up_seconds),
      "before them, for an epoch or about this long, 12 steps at least", at_least(0.0));
  add(keys, "benchmark.evaluate", FIELD(session.benchmark.evaluate), "rank the held-out users as well");
  add(keys, "device", FIELD(backend.device), "who computes; auto: GPUs where there are");
  add(keys, "backend.kernels", FIELD(backend.kernels),
      "portable: plain loops on the CPU, no library products");
  add(keys, "backend.threads", FIELD(backend.threads),
      "per rank; 0: this rank's share of the cores it may use", between(0, backend::most_threads));
  add(keys, "backend.resident", FIELD(backend.resident),
      "cuda: train users in the GPU's memory; off: in the host's, read from there; auto: on if they fit");
  add(keys, "backend.graph", FIELD(backend.graph),
      "cuda: record a step once and replay it; auto: where it can be");
  add(keys, "distributed.strategy", FIELD(session.distributed.strategy),
      "how ranks work together; parameter_server: the last ranks hold the weights for the others (CPU)");
  add(keys, "distributed.algorithm", FIELD(session.distributed.algorithm),
      "of the all-reduce; auto: the library's own choice");
  add(keys, "distributed.optimizer", FIELD(session.distributed.optimizer),
      "sharded: each rank updates its part of the weights and keeps the moments of that part alone");
  add(keys, "distributed.wire", FIELD(session.distributed.wire),
      "numbers that travel between ranks: gradients, and weights where the optimizer is sharded or servers "
      "have them");
  add(keys, "distributed.bucket_mib", FIELD(session.distributed.bucket_mib),
      "gradients are reduced in pieces of this size", between(comm::least_bucket_mib, comm::most_bucket_mib));
  add(keys, "distributed.overlap", FIELD(session.distributed.overlap),
      "reduce while backward still runs; auto: on GPUs; on over MPI: messages are posted early, and "
      "algorithm "
      "does not apply");
  add(keys, "distributed.servers", FIELD(session.distributed.servers),
      "parameter_server: how many ranks, the last ones, are servers; the others are workers", at_least(1));
  add(keys, "distributed.updates", FIELD(session.distributed.updates),
      "parameter_server: synchronous: one a step, as with all-reduce; asynchronous: one by each worker's "
      "gradient as it comes");
  add(keys, "distributed.staleness", FIELD(session.distributed.staleness),
      "asynchronous: steps that a worker may be ahead of the slowest one", at_least<i64>(0));
  add(keys, "distributed.warn_after", FIELD(session.distributed.warn_after),
      "seconds without progress after which the late rank is named", positive());
  add(keys, "distributed.timeout", FIELD(session.distributed.timeout),
      "seconds without progress, or without a sign of life, after which the run is ended", positive());
  add(keys, "distributed.loading_timeout", FIELD(session.distributed.loading_timeout),
      "the same while ranks find each other, set up and load", positive());
  add(keys, "distributed.validation_timeout", FIELD(session.distributed.validation_timeout),
      "the same in validation, test, benchmark and writing a checkpoint", positive());
  add(keys, "distributed.allow_shared_gpu", FIELD(backend.allow_shared_gpu),
      "several ranks on one GPU, for tests: their speed means nothing");
}

}  // namespace vaecf::config
