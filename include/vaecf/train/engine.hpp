#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/comm/all_reduce_benchmark.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/rank_grid.hpp>
#include <vaecf/data/distributed_sampler.hpp>
#include <vaecf/device/cpu/spd_inverse.hpp>
#include <vaecf/device/options.hpp>
#include <vaecf/device/step.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/model/model.hpp>
#include <vaecf/model/step_timer.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vaecf::train {

struct TrainingConfig;

/// The communication volume of one step in bytes of payload. Collectives are counted as on a ring; the
/// library may use another algorithm.
struct CommVolume {
  double total = 0.0;       ///< bytes sent by all ranks together
  double worker_out = 0.0;  ///< bytes sent by one worker
  double worker_in = 0.0;   ///< bytes received by one worker
  double server_out = 0.0;  ///< bytes sent by one server
  double server_in = 0.0;   ///< bytes received by one server
  double exchanged = 0.0;   ///< part of worker_out: activations exchanged in a group of item slices
};

/// The staleness of gradients with asynchronous updates of a parameter server.
struct Staleness {
  std::int64_t updates = 0;  ///< number of gradients applied, each of one worker
  /// Maximum number of steps by which a worker was ahead of the slowest one when a server sent it weights.
  std::int64_t max_lead = 0;
  std::int64_t max_age = 0;  ///< maximum number of updates between a worker's weights and its gradient
  double mean_age = 0.0;     ///< mean number of updates between a worker's weights and its gradient
};

/// Properties of a rank's device, which do not change except for peak_bytes.
struct DeviceFacts {
  std::string description;  ///< one line for the log: device, threads, precision and kernels
  device::DeviceChoice device = device::DeviceChoice::cpu;  ///< never `automatic`
  std::string id;  ///< unique id of the device; empty if ranks may share it
  device::Precision precision = device::Precision::fp32;  ///< never `automatic`
  int threads = 0;                    ///< number of computing threads on the host; 1 on a GPU
  std::int64_t peak_bytes = 0;        ///< peak use of device memory in bytes; 0 on the CPU
  std::int64_t evaluation_batch = 0;  ///< number of users per batch with which models evaluate at full speed
};

/// The peak rates of a device that an engine can measure.
enum class Rate {
  gemm,    ///< GFLOP/s of a large GEMM in the device's compute precision
  memory,  ///< GB/s of reads and writes of the memory that contains weights and moments
};

/// The arguments of Engine::start_training(). The referenced objects must outlive the training.
struct TrainingSetup {
  const TrainingConfig& options;
  const comm::RankGrid& grid;
  const io::DatasetFile& dataset;
  Range rows;                  ///< users of this rank's group in /train; empty on a parameter server
  std::int64_t max_users = 0;  ///< maximum number of the group's users in a batch
};

/// Properties of one rank's part of a training, fixed when it starts: memory and bytes moved per step.
struct TrainingFacts {
  bool is_worker = true;        ///< this rank is a worker, which computes gradients; otherwise a server
  bool overlaps = false;        ///< gradients are reduced during the backward pass
  std::int64_t data_bytes = 0;  ///< memory of this rank's training users
  /// Location of these users in memory and the reason for it, as one line for the log; may be empty.
  std::string data_description = {};
  std::int64_t flat_elements = 0;  ///< number of elements of a flat buffer, including padding
  /// Minimum memory traffic of one update on this rank in bytes: weights, moments and gradients are each read
  /// and written once, 16-bit copies of weights are written once. Gradients that are not stored, as in fused
  /// updates, do not count.
  double update_bytes = 0.0;
  CommVolume comm_volume;    ///< communication volume of a step
  Range prior_tensors = {};  ///< indices of the tensors in StateTensor::prior; empty if there is none
};

/// The update group of a step (TrainableModel::update_groups), which has its own count of updates.
struct UpdatedGroup {
  int index = 0;
  std::int64_t updates = 0;  ///< updates of this group before the step, skipped ones included
};

/// The arrays of a checkpoint that have one element per weight.
enum class StateTensor {
  weights,
  first_moment,
  second_moment,
  prior  ///< TrainableModel::prior(); only models with one have it, and it has some of the tensors only
};
inline constexpr std::array all_state_tensors = {StateTensor::weights, StateTensor::first_moment,
                                                 StateTensor::second_moment, StateTensor::prior};

/// A copy of weights and moments, made by Engine::copy_state(). Must not outlive the training.
class StateCopy {
 public:
  virtual ~StateCopy() = default;
  /// Copies rows `rows` of tensor index `tensor` to `to` (row-major). One thread beside that of the engine
  /// may call this, for all copies of the engine.
  virtual void read_rows(StateTensor state, int tensor, Range rows, std::span<float> to) = 0;
};

/// Writes stored rows `rows` of tensor index `tensor` from `values` (row-major).
using WriteRows = std::function<void(int tensor, Range rows, std::span<const float> values)>;

/// This rank's sums of losses since the epoch began, and the loss scale, which is used in fp16 only.
struct StepSums {
  device::LossSums losses;
  device::LossScale scale;
};

/// The device of one rank, with models and, between start_training() and end_training(), one training. This
/// is the only interface with virtual functions between a run and its device; its implementation EngineOf is
/// compiled for each device. Unless documented otherwise, a function may return before the device has
/// finished. The functions from start_training() on must be called by all ranks in the same order.
class Engine {
 public:
  virtual ~Engine() = default;

  /// Returns the properties of the device. Does not block.
  virtual DeviceFacts facts() const = 0;
  /// Measures a peak rate of the device; see Rate for the unit. Uses at most `max_bytes` of the host's
  /// memory.
  virtual double measure(Rate rate, std::int64_t max_bytes) = 0;
  /// Measures all-reduces on device memory, see comm::measure_all_reduce. Collective.
  virtual std::vector<comm::AllReduceTiming> measure_all_reduce(comm::Communicator& communicator,
                                                                std::span<const std::int64_t> sizes,
                                                                double budget) = 0;
  /// Makes a model of type `options.type` with zero weights, for batches of up to `max_users` users. The
  /// engine must outlive it.
  virtual std::unique_ptr<model::Model> make_model(const model::ModelOptions& options,
                                                   model::InputDims inputs, std::int64_t max_users) = 0;

  /// Adds X' diag(w) X without its diagonal to `matrix` and inverts it on GPUs; see cpu::SpdInverse::invert()
  /// for `progress` and the result. Returns nullopt on all ranks, with the matrix unchanged, unless every
  /// rank has a GPU with enough memory. Collective.
  virtual std::optional<cpu::Inversion> invert_on_gpu(cpu::SpdInverse& matrix, const cpu::Interactions& x,
                                                      comm::Communicator& ranks,
                                                      const cpu::SpdInverse::Progress& progress) = 0;

  /// Makes a scorer of x B for users x and a dense matrix B (items, items) of weights between items, whose
  /// rows `read_rows` writes. The engine must outlive it. Returns null if this device leaves such scores to
  /// the host: a CPU, or a GPU whose free memory B exceeds.
  virtual std::unique_ptr<model::Scorer> make_matrix_scorer(
      std::int64_t items,
      const std::function<void(std::int64_t begin, std::int64_t end, std::span<float> out)>& read_rows) = 0;

  /// Reads this rank's users and makes a network with initial weights. Throws std::logic_error if a training
  /// is active. Collective.
  virtual void start_training(const TrainingSetup& setup) = 0;
  /// Destroys the network, the optimizer state and this rank's users. Does nothing if no training is active.
  virtual void end_training() noexcept = 0;
  /// Returns the properties of the active training. Does not block.
  virtual TrainingFacts training() const = 0;
  /// Returns the network with the weights of all updates so far. The first call after a step is collective.
  virtual model::Model& model() = 0;
  /// Waits for all steps, and returns sum ||W||^2 over the tensors with weight decay. Collective.
  virtual double sum_of_squares() = 0;
  /// Checks the batches of the next pass over the users and copies them to the device. Every call but the
  /// first of a training may be made by another thread, concurrently with all functions except start_pass()
  /// and end_training().
  virtual void upload_pass(const data::EpochRows& batches) = 0;
  /// Starts the pass that was uploaded last.
  virtual void start_pass() = 0;
  /// Clears the loss sums, and copies the weights to the prior. Must be called before the first step of an
  /// epoch.
  virtual void start_epoch() = 0;
  /// Runs one step with `params` on `group`; the engine overwrites params.rule. `batch_users` is the number
  /// of users of the batch over all ranks. Returns this rank's loss sums up to this or an earlier step, or
  /// nullopt if none are available without waiting. Collective.
  virtual std::optional<device::LossSums> step(device::StepParams params, std::int64_t batch_users,
                                               UpdatedGroup group) = 0;
  /// Waits for all steps, and returns this rank's loss sums and the loss scale. Not collective.
  virtual StepSums sums() = 0;
  /// Overwrites this rank's loss sums and the loss scale, after all steps run so far. A resume uses this.
  virtual void set_sums(const StepSums& sums) = 0;
  /// Allocates a copy of the state: on the device, or in host memory if the device has too little to spare.
  /// With `spare_only`, returns null in the latter case. Throws std::bad_alloc if host memory is full.
  virtual std::unique_ptr<StateCopy> make_state_copy(bool spare_only) = 0;
  /// Gathers fp32 master weights, moments and prior, and copies them to `copy`; null on ranks that need no
  /// copy. No thread may read `copy` meanwhile. Collective.
  virtual void copy_state(StateCopy* copy) = 0;
  /// Copies stored rows `rows` of tensor `tensor` of weights, moments or prior to `to`, row-major. The
  /// optimizer must not be sharded. Blocks.
  virtual void read_state_rows(StateTensor state, int tensor, Range rows, std::span<float> to) = 0;
  /// Overwrites weights, a moment or the prior with the rows that `fill` writes, which must be equal on all
  /// ranks that store them. With `round_weights`, weights are rounded to bf16 if updates communicate them in
  /// bf16, as after an update. Collective.
  virtual void write_state(StateTensor state, bool round_weights,
                           const std::function<void(const WriteRows&)>& fill) = 0;
  /// Switches timing of step phases on or off. Timed steps do not use captured graphs.
  virtual void enable_timing(bool on) = 0;
  /// Waits for all steps, and returns the phase intervals of those since the last call or
  /// enable_timing(true).
  virtual std::vector<model::PhaseInterval> take_phase_intervals() = 0;
  /// Returns the staleness of asynchronous updates since the last call, equal on all ranks; nullopt if
  /// updates are not asynchronous. Collective.
  virtual std::optional<Staleness> take_staleness() = 0;
};

/// Makes the engine of the device that `options` selects. Throws InputError with the reason if the device is
/// not available.
std::unique_ptr<Engine> make_engine(const device::BackendOptions& options);
/// Makes the engine of the GPU that `options` assigns to this rank. Throws InputError with the reason if it
/// is not available, which includes builds without CUDA (cuda_stub.cpp).
std::unique_ptr<Engine> make_cuda_engine(const device::BackendOptions& options);

}  // namespace vaecf::train
