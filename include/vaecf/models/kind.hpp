#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/comm/distributed_options.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/device/device.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/io/model_export.hpp>
#include <vaecf/models/trainable_model.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vaecf::keys {
template <class Options>
struct Key;
}

namespace vaecf::models {

class SolvedKind;
class TrainedKind;

/// The complete train matrix X (users, items), by users and by items, and what is known about the items.
struct Interactions {
  Csr users;          ///< items of each user
  Csr items;          ///< users of each item
  Csr features = {};  ///< features of each item; no rows if the dataset has none
};

/// Reads /train and /items/features. Every rank reads all rows.
Interactions read_interactions(const Context& context, const io::DatasetFile& dataset);
/// Returns `users` and its transpose for `items` items.
Interactions make_interactions(Csr users, std::int64_t items);

/// Numbers of train users.
struct TrainUserCounts {
  std::vector<std::int64_t> of_item;  ///< number of train users of each item
  std::int64_t with_items = 0;        ///< number of train users with an item
};

/// Counts the users of /train. Each rank reads an equal part. Collective.
TrainUserCounts count_train_users(const Context& context, const io::DatasetFile& dataset);

/// A model that scores, and its reasons; null unless they are wanted.
struct LoadedModel {
  std::unique_ptr<Scorer> scorer;
  std::unique_ptr<Reasons> reasons;
};

/// A run, as far as what a model takes depends on it.
struct Workload {
  const Context& context;
  InputDims inputs;  ///< of all item slices
  std::int64_t train_users = 0;
  std::int64_t train_entries = 0;
  std::int64_t feature_entries = 0;  ///< of the features of all items
  bool weighted = false;             ///< interactions have weights
  /// Reads the train users, which is done only if it depends on them whether the memory suffices. Empty:
  /// host_bytes are an upper bound.
  std::function<Interactions()> read_train = {};
  // Of training by steps:
  std::int64_t batch_users = 0;  ///< users of all ranks in a step
  comm::DistributedOptions distributed = {};
  int item_slices = 1;
};

/// What a model takes while it is trained or solved.
struct Cost {
  std::int64_t parameters = 0;    ///< weights and biases of the whole model, at most
  double host_bytes = 0.0;        ///< memory of each rank on its host
  double device_bytes = 0.0;      ///< memory of each rank on its GPU; 0: the host computes what does not fit
  double checkpoint_bytes = 0.0;  ///< at most
  /// Floating-point operations: of a solution, on all ranks (0: few), or of training in dense layers, per
  /// user and step, on average over the steps of an epoch.
  double operations = 0.0;
  double operations_once = 0.0;  ///< floating-point operations on all ranks for all solutions of a search
  double solution_bytes = 0.0;   ///< of host_bytes, those of the solution alone; 0: little
  std::string memory = {};       ///< bytes of GPU and host and what they are for, as one line
};

/// Everything that the program may ask about a model. There is one object for each model, in its folder.
class Kind {
 public:
  /// Stores the value of a key that violates a rule between keys, and the rule.
  struct KeyError {
    std::string key;
    std::string problem;
  };
  using IsSet = std::function<bool(std::string_view key)>;

  /// `label` is the name in the literature; `help` describes the model in the help of model.type.
  Kind(ModelType type, std::string_view label, std::string_view help)
      : type_(type), label_(label), help_(help) {}
  virtual ~Kind() = default;

  ModelType type() const { return type_; }
  std::string name() const { return vaecf::to_string(type_); }
  std::string_view label() const { return label_; }
  std::string_view help() const { return help_; }
  /// Returns the model as one that is solved at once; null if it is trained by steps.
  virtual const SolvedKind* solved() const { return nullptr; }
  /// Returns the model as one that is trained by steps; null if it is solved.
  virtual const TrainedKind* trained() const { return nullptr; }

  // The configuration.

  /// Returns the keys of the section model.NAME, which other models do not use.
  virtual std::vector<keys::Key<ModelOptions>> keys() const;
  /// Returns those of shared_keys() that this model uses.
  virtual std::vector<std::string_view> used_keys() const { return {}; }
  /// Returns those of keys(), or their section with its dot, that later versions may change.
  virtual std::vector<std::string_view> experimental_keys() const { return {}; }
  /// Returns whether the model uses one of shared_keys().
  bool uses(std::string_view shared_key) const;
  /// Returns the keys that the model uses, but which have no effect with the other values of `options`.
  virtual std::vector<std::string> without_effect(const ModelOptions& /*options*/) const { return {}; }
  /// Replaces values that stand for others, where `is_set` tells which keys the configuration sets. Throws
  /// KeyError if values contradict each other.
  virtual void resolve(ModelOptions& /*options*/, const IsSet& /*is_set*/) const {}
  /// Throws InputError if a model with `options` is not possible with `dataset`.
  virtual void validate(const ModelOptions& /*options*/, const io::DatasetFile& /*dataset*/) const {}

  // A run.

  /// Returns what a model with `options` takes. The result differs between ranks only with the free memory of
  /// their hosts. Throws InputError if `options` are not valid for the model.
  virtual Cost cost(const ModelOptions& options, const Workload& work) const = 0;

  // A checkpoint.

  /// Reads a model for batches of up to `max_users` users, with its reasons if `explains` is set; then the
  /// device must compute in fp32. Collective. Throws InputError on all ranks if the checkpoint does not match
  /// `options`.
  virtual LoadedModel load(WeightReader& reader, const ModelOptions& options, const InputDims& inputs,
                           const Context& context, std::int64_t max_users, bool explains) const = 0;
  /// Returns the weights for other programs; tensors of 8-byte elements come first. `file` must outlive them.
  virtual std::vector<io::ExportTensor> arrays(const io::CheckpointFile& file,
                                               const ModelOptions& options) const = 0;
  /// Adds the nodes that compute "scores" of "items", with their weights and inputs.
  virtual void add_graph(const io::CheckpointFile& file, const ModelOptions& options,
                         io::OnnxModel& graph) const = 0;
  /// Adds the values of `options` without which the weights cannot be used.
  virtual void describe(const ModelOptions& /*options*/,
                        std::map<std::string, std::string>& /*metadata*/) const {}

 private:
  ModelType type_;
  std::string_view label_;
  std::string_view help_;
};

/// The weights of an item model in a checkpoint. They refer to the memory of the model or to `owned`.
struct StoredWeights {
  std::vector<io::TensorSource> tensors;
  std::vector<io::ArraySource> arrays;
  std::vector<float> owned = {};
};

/// Returns the number of threads with which a rank computes item models.
int item_model_threads(const Context& context);

/// Makes a scorer of a model with weights between `items` items: on this rank's GPU if the weights are dense
/// and fit into its memory, otherwise on the CPU, as are several variants. The device of `context` must
/// outlive it.
std::unique_ptr<Scorer> make_item_scorer(std::shared_ptr<const ItemModel> model, std::int64_t items,
                                         const Context& context);

/// The solutions of a model that is solved, one for each combination of the values of its keys, in the order
/// in which they are computed: those that follow from one another are neighbors.
class Search {
 public:
  /// Names and values of a solution, for its event and its checkpoint.
  using Values = std::vector<std::pair<std::string, io::Attribute>>;

  virtual ~Search() = default;
  /// Returns the number of solutions; at least 1.
  virtual std::int64_t size() const = 0;
  /// Returns the number of solutions from `done` on that do not follow from the one before them.
  virtual std::int64_t computed(std::int64_t done) const = 0;
  /// Returns what computed() counts: "inverses".
  virtual std::string unit() const = 0;
  /// Returns how solution `n` follows at no cost from the last one that was solved: "with the same inverse";
  /// empty: it does not.
  virtual std::string reused(std::int64_t /*n*/) const { return {}; }
  /// Solves solution `n` of the train matrix, with `threads` threads per rank; afterwards every rank has all
  /// weights. Returns null on all ranks if the run was asked to stop. Solutions may share memory: the one
  /// before must not be used any more, and should be dropped first, so that the memory of one suffices.
  /// Collective. Throws InputError on all ranks if the values are not possible.
  virtual std::shared_ptr<const ItemModel> solve(std::int64_t n, const Interactions& train,
                                                 const Context& context, int threads) = 0;
  /// Returns the number of solutions, from `n` on, that solve_together() solves.
  virtual std::int64_t together(std::int64_t /*n*/) const { return 1; }
  /// Solves the solutions [n, n + together(n)) as solve() does, as the variants of one model
  /// (ItemModel::variants()).
  virtual std::shared_ptr<const ItemModel> solve_together(std::int64_t n, const Interactions& train,
                                                          const Context& context, int threads) {
    return solve(n, train, context, threads);
  }
  /// States that solution `n` is the best one so far. Later solutions may follow from it.
  virtual void note_best(std::int64_t /*n*/) {}
  /// Returns a name of solution `n` for tables.
  virtual std::string title(std::int64_t n) const = 0;
  virtual Values values(std::int64_t n) const = 0;
};

/// A model that is solved at once: weights between items.
class SolvedKind : public Kind {
 public:
  /// Who solves: the run itself, or a test, for a baseline.
  enum class Purpose { run, baseline };

  using Kind::Kind;
  const SolvedKind* solved() const final { return this; }

  /// Returns the solutions to try. `compares`: they can be compared on validation users; otherwise a baseline
  /// has one solution.
  virtual std::unique_ptr<Search> search(const ModelOptions& options, Purpose purpose,
                                         bool compares) const = 0;
  /// Returns whether evaluation.baselines: auto includes the model, unless it costs too much.
  virtual bool is_usual_baseline() const { return false; }
  /// Returns what to set if the memory does not suffice.
  virtual std::string remedy(const ModelOptions& options) const = 0;
  /// Returns the name and values of the model in a checkpoint for tables.
  virtual std::string title(const io::Attributes& /*attributes*/) const { return name(); }

  LoadedModel load(WeightReader& reader, const ModelOptions& options, const InputDims& inputs,
                   const Context& context, std::int64_t max_users, bool explains) const override;
  std::vector<io::ExportTensor> arrays(const io::CheckpointFile& file,
                                       const ModelOptions& options) const override;
  void add_graph(const io::CheckpointFile& file, const ModelOptions& options,
                 io::OnnxModel& graph) const override;
};

/// A model that is trained by steps.
class TrainedKind : public Kind {
 public:
  /// What determines the weight of the KL term: there is no such term; it grows as train.annealing selects;
  /// or the model's own keys (kl_weight()).
  enum class KlTerm { none, annealed, of_model };

  using Kind::Kind;
  const TrainedKind* trained() const final { return this; }

  /// Returns the tensors in the order in which the backward pass completes their gradients. Throws InputError
  /// if `options` are not valid for the model.
  virtual std::vector<device::TensorSpec> tensors(const ModelOptions& options, InputDims inputs) const = 0;
  /// Makes a model with zero weights, for batches of up to `max_users` users; see TrainableModel for
  /// `size_multiple`. `device` must outlive it.
  virtual std::unique_ptr<TrainableModel> make(const ModelOptions& options, InputDims inputs,
                                               device::Device& device, std::int64_t max_users,
                                               std::int64_t size_multiple = 1) const = 0;
  /// Returns the parameter group of each pass over the users in an epoch; {0}: a single pass.
  virtual std::vector<int> passes(const ModelOptions& /*options*/) const { return {0}; }
  /// Returns the names of the parameter groups if there are several.
  virtual std::vector<std::string> parameter_groups() const { return {}; }
  /// Returns the tensors of weights that are stored besides tensors(), from which they follow.
  virtual std::vector<device::TensorSpec> derived_tensors(const ModelOptions& /*options*/,
                                                          InputDims /*inputs*/) const {
    return {};
  }
  /// Returns Cost::operations of a model with `tensors`: by default, for each weight, 2 in the forward and 4
  /// in the backward pass.
  virtual double operations(const ModelOptions& options,
                            const std::vector<device::TensorSpec>& tensors) const;
  Cost cost(const ModelOptions& options, const Workload& work) const final;
  virtual KlTerm kl_term() const { return KlTerm::none; }
  /// Returns the constant weight of the KL term of_model; 0: it differs between users.
  virtual double kl_weight(const ModelOptions& /*options*/) const { return 0.0; }
  /// Returns whether a parameter server can train the model.
  virtual bool has_parameter_server() const { return false; }
  /// Makes the reasons of `model`, whose weights are those of the checkpoint.
  virtual std::unique_ptr<Reasons> reasons(TrainableModel& model, WeightReader& reader,
                                           const Context& context) const = 0;

  LoadedModel load(WeightReader& reader, const ModelOptions& options, const InputDims& inputs,
                   const Context& context, std::int64_t max_users, bool explains) const override;
};

/// Returns the keys, and sections with a point at their end, that several models use but not all.
std::span<const std::string_view> shared_keys();

/// Returns all models, in the order of ModelType.
std::span<const Kind* const> all_kinds();

/// Returns what is known about the models of a type.
const Kind& kind_of(ModelType type);

/// Returns the model called `name` in a file; null if there is none.
const Kind* find_kind(std::string_view name);

/// Returns whether models of a type are solved at once; others are trained by steps.
inline bool is_solved(ModelType type) {
  return kind_of(type).solved() != nullptr;
}

/// Returns the model of a type that is trained by steps. Throws InputError if it is solved.
const TrainedKind& trained_kind_of(ModelType type);

}  // namespace vaecf::models
