#include <vaecf/math/random.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <ostream>

#include "models/model_fixture.hpp"
#include "support/reference_file.hpp"
#include "training/optimizer.hpp"

namespace vaecf::models {
namespace {

struct Case {
  int number;
  device::Kernels kernels;
  friend std::ostream& operator<<(std::ostream& stream, const Case& k) {
    return stream << "case " << k.number << " " << to_string(k.kernels);
  }
};

/// Compares the model with an independent fp64 implementation, with the same dropout masks and noise.
class Reference : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    file_.emplace(VAECF_REFERENCE_FILE);
    ASSERT_GT(file_->number("cases"), GetParam().number) << "the file has fewer cases";
    prefix_ = "case_" + std::to_string(GetParam().number) + "/";
    options_.type = number("config/sampled") == 1.0 ? ModelType::mult_vae : ModelType::mult_dae;
    options_.hidden = file_->at<std::int64_t>(prefix_ + "config/hidden");
    options_.latent = static_cast<std::int64_t>(number("config/latent"));
    options_.dropout = 1.0 - number("config/keep");
    options_.history_dropout = 1.0 - number("config/keep_history");
    items_ = static_cast<std::int64_t>(number("config/items"));
    seed_ = static_cast<std::uint64_t>(number("config/seed"));
    users_ = {file_->at<std::int64_t>(prefix_ + "input/indptr"),
              file_->at<std::int32_t>(prefix_ + "input/indices")};
    if (file_->has(prefix_ + "input/values")) users_.values = file_->at<float>(prefix_ + "input/values");

    device_ = fp32_device(GetParam().kernels);
    const auto features = static_cast<std::int64_t>(number("config/features"));
    const InputDims inputs{items_, features};
    model_.emplace(shape_of(options_, inputs), inputs, *device_, users_.rows());
    whole_.emplace(*device_, users_, first_user(), items_);
    if (features > 0) {
      features_ = {file_->at<std::int64_t>(prefix_ + "input/feature_indptr"),
                   file_->at<std::int32_t>(prefix_ + "input/feature_indices")};
      beside_.emplace(*device_, features_, first_user(), features);
    }
    gradients_ = device_->make_buffer(model_->layout().size);
    for (const device::TensorLayout& tensor : model_->layout().tensors) {
      import_tensor(*device_, model_->layout(), tensor.spec.name,
                    file_->at<float>(prefix_ + "weights/" + tensor.spec.name), model_->parameters().master());
    }
    device_->refresh_copies(model_->parameters(), {0, model_->parameters().layout().size});
  }

  double number(const std::string& name) const { return file_->number(prefix_ + name); }
  std::vector<double> values(const std::string& name) const { return file_->at(prefix_ + name); }
  std::int64_t first_user() const { return static_cast<std::int64_t>(number("config/first_user")); }

  NetworkInput input() const { return {*whole_->batch, beside_ ? beside_->batch.get() : nullptr}; }

  /// Runs one step; also updates the weights by `rule` if there is an optimizer.
  device::LossSums run(std::uint32_t step, double beta, training::Optimizer* optimizer = nullptr,
                       const device::UpdateRule& rule = {}) {
    device::StepTimer timer(*device_, false);
    const device::StepParams params{
        .seed = seed_, .step = step, .beta = static_cast<float>(beta), .rule = rule};
    return losses_of(*device_, params, [&](device::StepState& state) {
      model_->forward_backward(input(), {model_->parameters(), state, gradients_, {}}, 0, timer);
      if (optimizer != nullptr)
        optimizer->update({0, model_->layout().size}, 0, gradients_, model_->parameters(), state);
    });
  }

  std::vector<float> read(const device::Matrix& from) const {
    std::vector<float> out(static_cast<std::size_t>(from.rows() * from.columns()));
    device_->read_matrix(from, out);
    return out;
  }

  /// Compares the scores of all items except the users' own with these logits.
  void expect_scores(History history, const std::string& name) {
    const auto users = static_cast<std::size_t>(users_.rows());
    const auto width = static_cast<std::size_t>(items_);
    std::vector<std::int32_t> items(users * width);
    std::vector<float> scores(users * width);
    const auto held = model_->load_users({users_.view(), features_.view(), {}, first_user()});
    model_->top_k(*held, {0, users_.rows()}, history, false, static_cast<int>(items_), items, scores);
    const std::vector<double> logits = values(name);
    for (std::size_t u = 0; u < users; ++u) {
      const auto own = users_.view().row(static_cast<std::int64_t>(u));
      for (std::size_t j = 0; j < width; ++j) {
        const std::int32_t item = items[u * width + j];
        ASSERT_EQ(item >= 0, j + own.size() < width);
        if (item < 0) break;
        EXPECT_FALSE(std::binary_search(own.begin(), own.end(), item)) << "user " << u;
        const double expected = logits[u * width + static_cast<std::size_t>(item)];
        ASSERT_NEAR(scores[u * width + j], expected, 1e-5 * std::max(1.0, std::abs(expected)))
            << "user " << u;
      }
    }
  }

  std::optional<testing::ReferenceFile> file_;
  std::string prefix_;
  ModelOptions options_;
  std::int64_t items_ = 0;
  std::uint64_t seed_ = 0;
  Csr users_;
  std::unique_ptr<device::Device> device_;
  std::optional<Network> model_;
  std::optional<WholeBatch> whole_;
  Csr features_;
  std::optional<WholeBatch> beside_;
  device::Buffer gradients_;
};

TEST_P(Reference, MasksAndNoiseAreBitwiseEqual) {
  const auto step = static_cast<std::uint32_t>(number("config/step"));
  const std::uint64_t threshold = math::dropout_threshold(static_cast<float>(number("config/keep")));
  const std::uint64_t of_histories =
      math::dropout_threshold(static_cast<float>(number("config/keep_history")));
  const std::vector<double> mask = values("random/mask");
  ASSERT_EQ(mask.size(), static_cast<std::size_t>(users_.rows() * items_));
  for (std::size_t i = 0; i < mask.size(); ++i) {
    const auto user = static_cast<std::uint32_t>(first_user() + static_cast<std::int64_t>(i) / items_);
    const auto item = static_cast<std::uint32_t>(static_cast<std::int64_t>(i) % items_);
    const bool kept = math::dropout_keeps_item(seed_, step, user, item, threshold) &&
                      math::dropout_keeps_history(seed_, step, user, of_histories);
    ASSERT_EQ(kept, mask[i] == 1.0) << i;
  }
  if (options_.type != ModelType::mult_vae) return;
  const std::vector<double> noise = values("random/noise");
  for (std::size_t i = 0; i < noise.size(); ++i) {
    const auto user =
        static_cast<std::uint32_t>(first_user() + static_cast<std::int64_t>(i) / options_.latent);
    const auto dimension = static_cast<std::uint32_t>(static_cast<std::int64_t>(i) % options_.latent);
    float block[4];
    math::latent_noise_block(seed_, step, user, dimension / 4, block);
    ASSERT_NEAR(block[dimension % 4], noise[i], 2e-6) << i;
  }
}

TEST_P(Reference, ActivationsLossesAndGradients) {
  const device::LossSums sums = run(static_cast<std::uint32_t>(number("config/step")), number("config/beta"));
  const auto expect_near = [&](const device::Matrix& from, const std::string& name) {
    EXPECT_LT(relative_difference(read(from), values("activations/" + name)), 2e-6) << name;
  };
  expect_near(model_->latent(), "z");
  if (!options_.hidden.empty())
    expect_near(model_->hidden(), "decoder_" + std::to_string(options_.hidden.size()));
  EXPECT_NEAR(sums.nll / number("loss/nll"), 1.0, 1e-6);
  EXPECT_NEAR(sums.kl, number("loss/kl"), 2e-6 * number("loss/kl"));
  for (const device::TensorLayout& tensor : model_->layout().tensors) {
    const auto gradient = export_tensor(*device_, model_->layout(), tensor.spec.name, gradients_);
    EXPECT_LT(relative_difference(gradient, values("gradients/" + tensor.spec.name)), 5e-6)
        << tensor.spec.name;
  }
}

TEST_P(Reference, ScoresOfEvaluation) {
  expect_scores(History::items, "evaluation/logits");
  EXPECT_LT(relative_difference(read(model_->latent()), values("evaluation/z")), 2e-6);
}

// The users' seen items are excluded in this case, too.
TEST_P(Reference, ScoresFromFeaturesOnly) {
  if (beside_) expect_scores(History::none, "evaluation/cold_logits");
}

TEST_P(Reference, TenConsecutiveUpdates) {
  training::OptimizerOptions adam;
  adam.learning_rate = number("training/rate");
  adam.beta1 = number("training/beta1");
  adam.beta2 = number("training/beta2");
  adam.epsilon = number("training/epsilon");
  // The loss of the reference contains lambda times the sum of squares; that of train.weight_decay half of
  // it.
  const double decay = 2.0 * number("training/lambda");
  training::Optimizer optimizer(adam, decay, *device_, model_->layout().size);
  const auto users = static_cast<double>(users_.rows());
  const auto updates = static_cast<std::int64_t>(number("training/updates"));
  ASSERT_EQ(updates, 10);
  for (std::int64_t t = 0; t < updates; ++t) {
    const auto i = static_cast<std::size_t>(t);
    const double beta = values("training/beta")[i];
    EXPECT_NEAR(0.5 * decay * model_->sum_of_squares(), values("training/penalty")[i],
                1e-5 * values("training/penalty")[i]);
    const device::LossSums sums =
        run(static_cast<std::uint32_t>(t), beta, &optimizer, optimizer.rule(t, users_.rows()));
    EXPECT_NEAR(sums.nll / users / values("training/nll")[i], 1.0, 2e-5) << "update " << t;
    EXPECT_NEAR(sums.kl / users, values("training/kl")[i], 1e-4 * values("training/kl")[i]) << "update " << t;
    EXPECT_NEAR((sums.nll + beta * sums.kl) / users / values("training/loss")[i], 1.0, 2e-5)
        << "update " << t;
  }
  for (const device::TensorLayout& tensor : model_->layout().tensors) {
    const auto weights = weights_of(*device_, *model_, tensor.spec.name);
    EXPECT_LT(relative_difference(weights, values("training/weights/" + tensor.spec.name)), 2e-4)
        << tensor.spec.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Reference, ::testing::ValuesIn([] {
                           std::vector<Case> all;
                           for (int number = 0; number < 5; ++number) {
                             all.push_back({number, device::Kernels::automatic});
                             all.push_back({number, device::Kernels::portable});
                           }
                           return all;
                         }()),
                         [](const auto& param) {
                           return "case_" + std::to_string(param.param.number) + "_" +
                                  to_string(param.param.kernels);
                         });

}  // namespace
}  // namespace vaecf::models
