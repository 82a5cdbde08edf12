#include <vaecf/io/stored_tensors.hpp>
#include <vaecf/math/loss.hpp>
#include <vaecf/models/kind.hpp>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "models/contributions.hpp"
#include "models/elsa/elsa.hpp"
#include "models/linear/linear_reasons.hpp"
#include "models/onnx_graph.hpp"
#include "models/own_keys.hpp"

namespace vaecf::models {
namespace {

/// Contributions in ELSA. The scores of a user are x A A' / |x|: unlike its loss, the model's scores contain
/// the product of an item with itself.
class ElsaReasons final : public LinearReasons {
 public:
  /// `weights` (items, width) are those of the checkpoint.
  ElsaReasons(std::vector<float> weights, std::int64_t width, int threads)
      : LinearReasons(threads), table_(std::move(weights)), width_(width) {
    for (std::int64_t begin = 0; begin < std::ssize(table_); begin += width_) {
      const std::span row = std::span(table_).subspan(begin, width_);
      const float inverse = math::inverse_norm(static_cast<float>(dot<float>(row, row)));
      for (float& value : row) value *= inverse;
    }
  }

 private:
  float contribution(std::int32_t source, float x, std::int32_t item, double norm) const override {
    return static_cast<float>(x * dot<float>(vector(source), vector(item)) / norm);
  }
  /// Returns the norm of x A / |x|, which no score exceeds.
  double scale(const SparseRow& history, double norm) const override {
    std::vector<double> sum(width_, 0.0);
    for (std::size_t n = 0; n < history.columns.size(); ++n) {
      const double x = history.value(n);
      std::ranges::transform(sum, vector(history.columns[n]), sum.begin(),
                             [x](double total, float element) { return total + x * element; });
    }
    return std::sqrt(dot<double>(sum, sum)) / norm;
  }

  std::span<const float> vector(std::int32_t item) const {
    return std::span(table_).subspan(item * width_, width_);
  }
  template <class T>
  static double dot(std::span<const T> a, std::span<const T> b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                              [](T x, T y) { return static_cast<double>(x) * y; });
  }

  std::vector<float> table_;  // A (items, width)
  std::int64_t width_;
};

/// Divides a row by its norm.
void normalize(std::span<float> row) {
  const float inverse = math::inverse_norm(std::inner_product(row.begin(), row.end(), row.begin(), 0.0F));
  for (float& value : row) value *= inverse;
}

class ElsaKind final : public TrainedKind {
 public:
  ElsaKind() : TrainedKind(ModelType::elsa, "ELSA", "linear, with the cosine loss") {}

  std::vector<std::string_view> used_keys() const override { return {"train.weight_decay"}; }

  std::vector<keys::Key<ModelOptions>> keys() const override {
    using namespace keys;
    return own_keys<ElsaOptions>(*this, {make_key<ElsaOptions>("factors", &ElsaOptions::factors,
                                                               between<std::int64_t>(1, max_layer_width),
                                                               "ELSA: width of the item vectors")});
  }

  std::vector<device::TensorSpec> tensors(const ModelOptions& options, InputDims inputs) const override {
    return elsa_tensors(options, inputs);
  }

  std::unique_ptr<TrainableModel> make(const ModelOptions& options, InputDims inputs, device::Device& device,
                                       std::int64_t max_users, std::int64_t size_multiple) const override {
    return std::make_unique<Elsa>(options, inputs, device, max_users, size_multiple);
  }

  std::vector<device::TensorSpec> derived_tensors(const ModelOptions& options,
                                                  InputDims inputs) const override {
    return elsa_normalized_tensors(options, inputs);
  }

  std::unique_ptr<Reasons> reasons(TrainableModel& model, WeightReader& reader,
                                   const Context& context) const override {
    const device::TensorSpec table = model.tensors().front();
    return std::make_unique<ElsaReasons>(read_tensor(reader, table), table.logical_columns(),
                                         item_model_threads(context));
  }

  std::vector<io::ExportTensor> arrays(const io::CheckpointFile& file,
                                       const ModelOptions& /*options*/) const override {
    return {io::stored_tensor(file, "items", "weight")};
  }

  void add_graph(const io::CheckpointFile& file, const ModelOptions& /*options*/,
                 io::OnnxModel& graph) const override {
    OnnxGraph nodes(file, graph);
    const std::string sum = nodes.add_input_product("items", "items", "weight", 0, true, normalize);
    nodes.add("Gemm", {sum, "items.weight"}, "scores", {{"transB", 1}});
  }
};

}  // namespace

const Kind& elsa_kind() {
  static const ElsaKind kind;
  return kind;
}

}  // namespace vaecf::models
