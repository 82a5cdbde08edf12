#include "config/key_making.hpp"

namespace vaecf::config {

void add_run_keys(Keys& keys) {
  keys.push_back(make_key(
      "validation.every", [](Config & c) -> auto& { return c.session.validation.every; },
      "epochs between validations; 0: never", at_least<i64>(0)));
  keys.push_back(make_key(
      "validation.metrics", [](Config & c) -> auto& { return c.session.validation.metrics; },
      "what validation and test report", metric_list()));
  keys.push_back(make_key(
      "validation.select", [](Config & c) -> auto& { return c.session.validation.select; },
      "which of the metrics picks best.h5; last: the last epoch is taken", selection()));
  keys.push_back(make_key(
      "run.directory", [](Config & c) -> auto& { return c.session.run.directory; }, "where run folders go",
      not_empty()));
  keys.push_back(make_alternative(
      "run.checkpoint_every.epochs",
      [](Config & c) -> auto& { return c.session.run.checkpoint_every.epochs; },
      "epochs between checkpoints to go on from, also given as run.checkpoint_every: 1; 0: none but the best",
      at_least<i64>(0)));
  keys.back().stands_for_section = true;
  keys.push_back(make_alternative(
      "run.checkpoint_every.steps", [](Config & c) -> auto& { return c.session.run.checkpoint_every.steps; },
      "or updates between them", at_least<i64>(1)));
  keys.push_back(make_alternative(
      "run.checkpoint_every.minutes",
      [](Config & c) -> auto& { return c.session.run.checkpoint_every.minutes; },
      "or minutes between them, for epochs that are over faster than a checkpoint is written", positive()));
  keys.push_back(make_key(
      "run.keep", [](Config & c) -> auto& { return c.session.run.keep; },
      "how many of them stay, the newest, beside best.h5", at_least<i64>(1)));
  keys.push_back(make_key(
      "benchmark.seconds", [](Config & c) -> auto& { return c.session.benchmark.seconds; },
      "of --benchmark's timed steps; train.epochs epochs where that is less, 20 steps at least", positive()));
  keys.push_back(make_key(
      "benchmark.warm_up_seconds", [](Config & c) -> auto& { return c.session.benchmark.warm_up_seconds; },
      "before them, for an epoch or about this long, 12 steps at least", at_least(0.0)));
  keys.push_back(make_key(
      "benchmark.evaluate", [](Config & c) -> auto& { return c.session.benchmark.evaluate; },
      "rank the held-out users as well"));
  keys.push_back(make_key(
      "device", [](Config & c) -> auto& { return c.backend.device; },
      "who computes; auto: GPUs where there are", one_of({"auto", "cpu", "cuda"})));
  keys.push_back(make_key(
      "backend.kernels", [](Config & c) -> auto& { return c.backend.kernels; },
      "portable: plain loops on the CPU, no library products", one_of({"auto", "portable"})));
  keys.push_back(make_key("backend.threads", [](Config & c) -> auto& { return c.backend.threads; },
                          "per rank; 0: this rank's share of the cores it may use",
                          {format("between 0 and {}", backend::most_threads), [](const int& threads) {
                             return threads >= 0 && threads <= backend::most_threads;
                           }}));
  keys.push_back(make_key(
      "backend.resident", [](Config & c) -> auto& { return c.backend.resident; },
      "cuda: train users in the GPU's memory; off: in the host's, read from there; auto: on if they fit",
      one_of({"auto", "on", "off"})));
  keys.push_back(make_key(
      "backend.graph", [](Config & c) -> auto& { return c.backend.graph; },
      "cuda: record a step once and replay it; auto: where it can be", one_of({"auto", "on", "off"})));
  keys.push_back(make_key(
      "distributed.strategy", [](Config & c) -> auto& { return c.session.distributed.strategy; },
      "how ranks work together; parameter_server: the last ranks hold the weights for the others (CPU)",
      one_of({"allreduce", "parameter_server"})));
  keys.push_back(make_key(
      "distributed.algorithm", [](Config & c) -> auto& { return c.session.distributed.algorithm; },
      "of the all-reduce; auto: the library's own choice", one_of({"ring", "auto"})));
  keys.push_back(make_key(
      "distributed.optimizer", [](Config & c) -> auto& { return c.session.distributed.optimizer; },
      "sharded: each rank updates its part of the weights and keeps the moments of that part alone",
      one_of({"replicated", "sharded"})));
  keys.push_back(make_key(
      "distributed.wire", [](Config & c) -> auto& { return c.session.distributed.wire; },
      "numbers that travel between ranks: gradients, and weights where the optimizer is sharded or servers "
      "have them",
      one_of({"fp32", "bf16"})));
  keys.push_back(
      make_key("distributed.bucket_mib", [](Config & c) -> auto& { return c.session.distributed.bucket_mib; },
               "gradients are reduced in pieces of this size",
               {format("between {} and {}", comm::least_bucket_mib, comm::most_bucket_mib),
                [](const double& v) { return v >= comm::least_bucket_mib && v <= comm::most_bucket_mib; }}));
  keys.push_back(make_key(
      "distributed.overlap", [](Config & c) -> auto& { return c.session.distributed.overlap; },
      "reduce while backward still runs; auto: on GPUs, as on CPUs the exchange takes the cores that compute",
      one_of({"auto", "on", "off"})));
  keys.push_back(make_key(
      "distributed.servers", [](Config & c) -> auto& { return c.session.distributed.servers; },
      "parameter_server: how many ranks, the last ones, are servers; the others are workers", at_least(1)));
  keys.push_back(make_key(
      "distributed.updates", [](Config & c) -> auto& { return c.session.distributed.updates; },
      "parameter_server: synchronous: one a step, as with all-reduce; asynchronous: one by each worker's "
      "gradient as it comes",
      one_of({"synchronous", "asynchronous"})));
  keys.push_back(make_key(
      "distributed.staleness", [](Config & c) -> auto& { return c.session.distributed.staleness; },
      "asynchronous: steps that a worker may be ahead of the slowest one", at_least<i64>(0)));
  keys.push_back(make_key(
      "distributed.warn_after", [](Config & c) -> auto& { return c.session.distributed.warn_after; },
      "seconds without progress after which the late rank is named", positive()));
  keys.push_back(make_key(
      "distributed.timeout", [](Config & c) -> auto& { return c.session.distributed.timeout; },
      "seconds without progress, or without a sign of life, after which the run is ended", positive()));
  keys.push_back(make_key(
      "distributed.loading_timeout",
      [](Config & c) -> auto& { return c.session.distributed.loading_timeout; },
      "the same while ranks find each other, set up and load", positive()));
  keys.push_back(make_key(
      "distributed.validation_timeout",
      [](Config & c) -> auto& { return c.session.distributed.validation_timeout; },
      "the same in validation, test, benchmark and writing a checkpoint", positive()));
  keys.push_back(make_key(
      "distributed.allow_shared_gpu", [](Config & c) -> auto& { return c.backend.allow_shared_gpu; },
      "several ranks on one GPU, for tests: their speed means nothing"));
}

}  // namespace vaecf::config
