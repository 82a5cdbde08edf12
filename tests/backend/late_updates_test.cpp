// Updates of input rows that wait until the rows are read: the bits of updates at once.
#include <vaecf/backend/backend.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

namespace vaecf::backend {
namespace {

constexpr std::int64_t items = 70;
constexpr std::int64_t width = 37;
constexpr std::int64_t most_users = 5;

/// An input layer and its training, in one way or another.
class Side {
 public:
  enum class How { apart, at_once, late };

  Side(How how, Precision precision, const char* kernels)
      : how_(how),
        backend_(make_backend({.device = "cpu",
                               .precision = precision,
                               .kernels = kernels,
                               .threads = 2,
                               .late_updates = how == How::late ? "on" : "off"})) {
    const TensorSpec specs[] = {{"encoder_1/weight", items, width, TensorKind::input_table, true},
                                {"encoder_1/bias", 1, width, TensorKind::bias, false}};
    layout_ = backend_->plan_parameters(specs);
    parameters_ = backend_->make_parameters(layout_);
    first_ = backend_->make_buffer(layout_.size);
    second_ = backend_->make_buffer(layout_.size);
    gradients_ = backend_->make_buffer(layout_.size);
    output_ = backend_->make_activations(most_users, width);
    d_output_ = backend_->make_activations(most_users, width);
    batch_ = backend_->make_batch();
    step_ = backend_->make_step_state();
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0.0F, 0.02F);
    std::vector<float> weights(static_cast<std::size_t>(items * width));
    for (float& w : weights) w = normal(random);
    backend_->import_rows(layout_, 0, {0, items}, weights, parameters_->master());
  }

  /// Forward, backward and update. Returns the output.
  std::vector<float> train(CsrView rows, const StepNumbers& numbers, std::span<const float> gradient) {
    begin(rows, numbers);
    const FusedUpdate fused{*parameters_, *first_, *second_};
    std::vector<float> output = encode(0.5F);
    backend_->write_activations(*d_output_, batch_->users(), gradient);
    backend_->input_gradient(*batch_, layout_, layer_, Activation::tanh, 0.5F, *step_, *output_, *d_output_,
                             *gradients_, {}, how_ == How::apart ? nullptr : &fused);
    if (how_ != How::apart) return output;
    for (const TensorLayout& tensor : layout_.tensors) {
      backend_->update(*step_, tensor.spec.decays, tensor.range, *gradients_, *first_, *second_,
                       *parameters_);
    }
    return output;
  }

  /// As for held-out users: no dropout, no transpose.
  std::vector<float> score(CsrView rows) {
    held_ = backend_->hold_rows(rows, 0, items);
    const std::int64_t all[] = {0};
    backend_->gather_batch(*held_, all, false, *batch_);
    return encode(1.0F);
  }

  double sum_of_squares() { return backend_->sum_of_squares(*parameters_, 0); }
  void update_bias(const UpdateRule& rule) {
    backend_->begin_step({.rule = rule}, *step_);
    backend_->update(*step_, false, layout_.tensors[1].range, *gradients_, *first_, *second_, *parameters_);
  }
  void update_table(const UpdateRule& rule) {
    backend_->begin_step({.rule = rule}, *step_);
    backend_->finish_updates(*parameters_);
    const std::vector<float> quarters(static_cast<std::size_t>(items * width), 0.25F);
    backend_->import_rows(layout_, 0, {0, items}, quarters, *gradients_);
    backend_->update(*step_, true, layout_.tensors[0].range, *gradients_, *first_, *second_, *parameters_);
  }
  void finish() { backend_->finish_updates(*parameters_); }

  const FloatBuffer& weights() const { return parameters_->master(); }
  const FloatBuffer& first() const { return *first_; }
  const FloatBuffer& second() const { return *second_; }

 private:
  void begin(CsrView rows, const StepNumbers& numbers) {
    held_ = backend_->hold_rows(rows, 0, items);
    std::vector<std::int64_t> all;
    for (std::int64_t r = 0; r < rows.rows(); ++r) all.push_back(r);
    backend_->begin_step(numbers, *step_);
    backend_->gather_batch(*held_, all, true, *batch_);
  }
  std::vector<float> encode(float keep) {
    backend_->encode_input(*batch_, *parameters_, layer_, Activation::tanh, keep, *step_, *output_);
    std::vector<float> values(static_cast<std::size_t>(batch_->users() * width));
    backend_->read_activations(*output_, values);
    return values;
  }

  How how_;
  std::unique_ptr<Backend> backend_;
  ParameterLayout layout_;
  Layer layer_{0, 1};
  std::unique_ptr<Parameters> parameters_;
  std::unique_ptr<FloatBuffer> first_, second_, gradients_;
  std::unique_ptr<Activations> output_, d_output_;
  std::unique_ptr<UserRows> held_;
  std::unique_ptr<Batch> batch_;
  std::unique_ptr<StepState> step_;
};

bool same_bits(const FloatBuffer& a, const FloatBuffer& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(float)) == 0;
}

/// A few users of items that come always, often, seldom, once and never.
Csr draw_rows(std::int64_t step, std::mt19937& random) {
  Csr rows;
  rows.offsets = {0};
  const auto users = static_cast<std::int64_t>(random() % (most_users + 1));
  for (std::int64_t u = 0; u < users; ++u) {
    for (std::int32_t item = 0; item < items; ++item) {
      const bool has = item < 3 || (item < 20 && random() % 4 == 0) || (item < 50 && random() % 90 == 0) ||
                       (item < 60 && step == 7 * item);
      if (has) rows.columns.push_back(item);
    }
    rows.offsets.push_back(static_cast<std::int64_t>(rows.columns.size()));
  }
  return rows;
}

class LateUpdates : public ::testing::Test {
 protected:
  /// Trains all ways at once and compares what can be seen of them.
  void expect_same(Precision precision, const char* kernels, std::int64_t steps, const UpdateRule& rule) {
    Side sides[] = {{Side::How::apart, precision, kernels},
                    {Side::How::at_once, precision, kernels},
                    {Side::How::late, precision, kernels}};
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0.0F, 0.1F);
    for (std::int64_t s = 0; s < steps; ++s) {
      const Csr rows = draw_rows(s, random);
      std::vector<float> gradient(static_cast<std::size_t>(rows.view().rows() * width));
      for (float& x : gradient) x = normal(random);
      StepNumbers numbers{3, static_cast<std::uint32_t>(s), 0, 0.0F, rule};
      numbers.rule.rate *= 1.0F + 0.3F * static_cast<float>(random() % 100) / 100.0F;
      numbers.rule.gradient_scale = 1.0F / static_cast<float>(rows.view().rows() + 1);
      if (s > steps - 20) numbers.rule.beta2 = 0.99F;
      Csr held;
      held.offsets = {0, 2};
      held.columns = {static_cast<std::int32_t>(random() % 30),
                      static_cast<std::int32_t>(30 + random() % 40)};
      const int what = static_cast<int>(random() % 60);
      std::vector<std::vector<float>> seen;
      for (Side& side : sides) {
        seen.push_back(side.train(rows.view(), numbers, gradient));
        if (what == 0) seen.back() = side.score(held.view());
        if (what == 1) seen.back().push_back(static_cast<float>(side.sum_of_squares()));
        if (what == 2) side.finish();
        if (what == 3) side.update_table(numbers.rule);
        if (what == 4) side.update_bias(numbers.rule);
      }
      ASSERT_EQ(seen[0], seen[1]) << "step " << s;
      ASSERT_EQ(seen[0], seen[2]) << "step " << s;
    }
    sides[2].finish();
    for (const Side* side : {&sides[1], &sides[2]}) {
      EXPECT_TRUE(same_bits(side->weights(), sides[0].weights()));
      EXPECT_TRUE(same_bits(side->first(), sides[0].first()));
      EXPECT_TRUE(same_bits(side->second(), sides[0].second()));
    }
  }
};

const UpdateRule adam{OptimizerKind::adam, 1e-3F, 0.9F, 0.999F, 1e-8F, 1.0F, 0.0F};

TEST_F(LateUpdates, LeaveTheBitsOfUpdatesAtOnce) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    for (const char* kernels : {"auto", "portable"}) {
      SCOPED_TRACE(::testing::Message() << to_string(precision) << " " << kernels);
      expect_same(precision, kernels, 120, adam);
    }
  }
}

// Past the point where first moments are flushed to zero, and where all rows are brought up to date.
TEST_F(LateUpdates, LeaveThemOverALongRunToo) {
  expect_same(Precision::fp32, "auto", 1300, adam);
}

TEST_F(LateUpdates, AreNotPutOffWhereTheyWouldDiffer) {
  UpdateRule decaying = adam;
  decaying.decay = 0.01F;
  expect_same(Precision::fp32, "auto", 60, decaying);
  expect_same(Precision::fp32, "auto", 60, {OptimizerKind::rmsprop, 1e-3F, 0.5F, 0.9F, 1e-3F, 1.0F, 0.0F});
  expect_same(Precision::fp32, "auto", 60, {OptimizerKind::sgd, 1e-2F, 0.9F, 0.0F, 0.0F, 1.0F, 0.0F});
}

TEST_F(LateUpdates, AreRefusedWhereTheRuleClips) {
  UpdateRule clipping = adam;
  clipping.clip_norm = 1.0F;
  for (const Side::How how : {Side::How::at_once, Side::How::late}) {
    Side side(how, Precision::fp32, "auto");
    EXPECT_THROW(side.train({}, {3, 0, 0, 0.0F, clipping}, {}), std::logic_error);
  }
}

// What the tests above rely on: rows that no batch holds are left alone until someone asks.
TEST_F(LateUpdates, AreReallyLate) {
  Side at_once(Side::How::at_once, Precision::fp32, "auto");
  Side late(Side::How::late, Precision::fp32, "auto");
  std::mt19937 random(5);
  for (std::int64_t s = 0; s < 20; ++s) {
    const Csr rows = draw_rows(s, random);
    const std::vector<float> gradient(static_cast<std::size_t>(rows.view().rows() * width), 0.1F);
    const StepNumbers numbers{3, static_cast<std::uint32_t>(s), 0, 0.0F, adam};
    at_once.train(rows.view(), numbers, gradient);
    late.train(rows.view(), numbers, gradient);
  }
  EXPECT_FALSE(same_bits(late.weights(), at_once.weights()));
  late.finish();
  EXPECT_TRUE(same_bits(late.weights(), at_once.weights()));
}

}  // namespace
}  // namespace vaecf::backend
