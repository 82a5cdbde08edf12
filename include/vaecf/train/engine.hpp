#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/comm/all_reduce_probe.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/data/epoch_order.hpp>
#include <vaecf/device/options.hpp>
#include <vaecf/device/step.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/model/model.hpp>
#include <vaecf/model/step_clock.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vaecf::train {

struct SessionOptions;

/// What one step moves between ranks: bytes of payload, each counted where it is sent and where it arrives.
/// Collectives count as a ring does them, which the library may do another way.
struct WireBytes {
  double total = 0.0;  ///< sent by all ranks together
  // Of one rank of the kind, out and in: the load of its link.
  double worker_out = 0.0;
  double worker_in = 0.0;
  double server_out = 0.0;
  double server_in = 0.0;
};

/// How far ranks were apart where a parameter server updates asynchronously.
struct Staleness {
  std::int64_t updates = 0;  ///< gradients applied, one worker's each
  std::int64_t ahead = 0;    ///< most steps that a worker was ahead of the slowest one when it was let go on
  std::int64_t age = 0;      ///< most updates by others between a worker's weights and its gradient
  double mean_age = 0.0;
};

struct DeviceFacts {
  std::string description;  ///< one line for the log: device, threads, precision and kernels
  std::string device;       ///< "cpu" or "cuda"
  std::string id;           ///< tells this device from all others; empty if ranks may share it
  device::Precision precision = device::Precision::fp32;  ///< never `automatic`
  int threads = 0;
  std::int64_t peak_bytes = 0;  ///< the largest use of device memory so far; 0 on the CPU
};

/// The rates of a device that an engine measures.
enum class Rate {
  products,  ///< GFLOP/s of a large product, fp32 or bf16 as the device computes
  memory,    ///< GB/s read and written of the memory that holds weights and moments
};

/// What one rank trains. All that it names outlives the training.
struct TrainingSetup {
  const SessionOptions& options;
  comm::Communicator& communicator;
  const io::DatasetFile& dataset;
  Range rows;                  ///< this rank's users in /train; none on a parameter server
  std::int64_t max_users = 0;  ///< of a batch
};

struct TrainingFacts {
  bool works = true;                   ///< this rank computes gradients; otherwise it serves weights
  bool overlaps = false;               ///< gradients are reduced while backward still runs
  std::int64_t shard_bytes = 0;        ///< of this rank's users
  std::string shard_description = {};  ///< where they lie and why, for the log; may be empty
  std::int64_t flat_elements = 0;      ///< of weights, gradients and moments, padding included
  /// Bytes that one update moves to and from this rank's memory for weights, moments and gradients at least:
  /// each once in and once out, and the 16-bit copies of weights once out.
  double update_bytes = 0.0;
  WireBytes wire;  ///< of a step
};

/// The parts of a checkpoint that are as large as all weights.
enum class FlatState { weights, first_moment, second_moment };

/// Writes rows of tensor number `tensor`, row-major.
using WriteRows = std::function<void(int tensor, Range rows, std::span<const float> values)>;

/// The sums of losses since an epoch began, and the loss scale (fp16).
struct StepSums {
  device::LossSums losses;
  device::LossScale scale;
};

/// A device of one rank with all that computes on it: models and, between start_training() and
/// end_training(), one training. This is the only virtual boundary between a run and its device; below it
/// everything is compiled for one device (EngineOf). A device may still be at work when a function returns,
/// unless it says that it waits. Functions of a training are called by all ranks alike.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual DeviceFacts facts() const = 0;
  virtual double measure(Rate rate) = 0;
  /// Measures sums over ranks as gradients travel (comm::measure_all_reduce). Collective.
  virtual std::vector<comm::AllReduceTime> measure_all_reduce(comm::Communicator& communicator,
                                                              std::span<const std::int64_t> sizes,
                                                              double budget) = 0;
  /// Makes the model that `options.type` names, with weights of zero, for up to `max_users` users at a time.
  /// The engine outlives it. Throws InputError if there is no such type.
  virtual std::unique_ptr<model::Model> make_model(const model::ModelOptions& options, model::Inputs inputs,
                                                   std::int64_t max_users) = 0;

  /// Reads this rank's users and makes a network with initial weights. Throws std::logic_error if a training
  /// is under way. Collective.
  virtual void start_training(const TrainingSetup& setup) = 0;
  virtual void end_training() noexcept = 0;
  virtual TrainingFacts training() const = 0;
  /// Returns the network with the weights of all updates so far. Collective after a step.
  virtual model::Model& model() = 0;
  /// Returns sum ||W||^2 over the tensors that decay.
  virtual double sum_of_squares() = 0;
  /// Takes up the batches of an epoch and clears the sums of losses.
  virtual void start_epoch(const data::EpochRows& batches) = 0;
  /// Runs the step that `numbers`, all but the rule, describe, of `batch_users` users on all ranks. Returns
  /// the sums as of this step or a recent one, if they are known without waiting.
  virtual std::optional<device::LossSums> step(device::StepNumbers numbers, std::int64_t batch_users) = 0;
  /// Waits for all steps, and returns their sums.
  virtual StepSums sums() = 0;
  virtual void set_sums(const StepSums& sums) = 0;
  /// Copies all rows of each tensor to `tensors`, one span per tensor; none on ranks that want no copy. fp32
  /// master weights, or a moment, whichever ranks hold them. Waits. Collective.
  virtual void read(FlatState state, std::span<const std::span<float>> tensors) = 0;
  /// Overwrites weights or a moment: `fill` writes the same rows on every rank. `updated` weights are rounded
  /// as an update with a bf16 wire would have left them. Collective.
  virtual void write(FlatState state, bool updated, const std::function<void(const WriteRows&)>& fill) = 0;
  /// Takes phase times of the steps that follow, none of which is captured or replayed then.
  virtual void take_times(bool on) = 0;
  /// Returns the laps of the steps since the last call or take_times(true); waits for them.
  virtual std::vector<model::StepLap> laps() = 0;
  /// Returns the staleness of asynchronous updates since the last call, on all ranks. Collective.
  virtual std::optional<Staleness> take_staleness() = 0;
};

/// Makes the engine of the device that `options` ask for. Throws InputError if it cannot be had, saying what
/// is missing.
std::unique_ptr<Engine> make_engine(const device::BackendOptions& options);
/// Makes that of the GPU that `options` give to this rank. Defined in cuda.cpp, or in cuda_missing.cpp
/// without CUDA.
std::unique_ptr<Engine> make_cuda_engine(const device::BackendOptions& options);

}  // namespace vaecf::train
