// The complete step: parameters, losses, scheduled batches, and graphs.
#include <vaecf/base/error.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "device/contract/contract.hpp"

namespace vaecf::testing {
namespace {

using device::Activation;
using device::LossSums;
using device::TensorKind;
using device::UpdateRule;

class Step : public Contract {};
INSTANTIATE_TEST_SUITE_P(Devices, Step, ::testing::ValuesIn(contract_devices()), contract_name);

// As on a resume in the middle of an epoch.
TEST_P(Step, LossesOfStepsAddUpFromGivenSums) {
  TestLayer layer = random_layer(TensorKind::output_table, 7, 33);
  auto d_statistics = device().make_matrix(33, 14);
  TestBatch batch;
  const auto one_step = [&](std::uint32_t number, device::StepState& state) {
    const std::int64_t users = number == 2 ? 0 : 33 - 5 * static_cast<std::int64_t>(number);
    gather(random_rows(users, 33, number), 33, true, batch);
    const auto statistics = activations(random_matrix(users, 14, 3, 0.7F));
    const auto d_z = activations(random_matrix(users, 7, 4));
    const auto hidden = activations(random_matrix(users, 7, 2));
    device().begin_step({1, number, 0, 0.25F * static_cast<float>(number), {}}, state);
    add_loss(hidden, batch, layer, state);
    device().latent_backward(*batch.device, statistics, d_z, d_statistics, state);
    device().end_step(state);
  };
  std::vector<LossSums> alone;
  for (std::uint32_t number = 0; number < 4; ++number) {
    const auto state = device().make_step_state();
    one_step(number, *state);
    alone.push_back(device().sums(*state).losses);
    EXPECT_EQ(alone.back().nll > 0.0, number != 2);
    EXPECT_EQ(alone.back().weighted_kl > 0.0, number != 0 && number != 2);
  }

  const auto state = device().make_step_state();
  one_step(1, *state);
  device().poll_losses(*state);  // starts a read-back of the previous sums
  // Values that exceed fp32, users beyond 32 bits, and a non-finite step that is removed.
  const LossSums sums{1.0 / 3.0, 1e-300, -0.1, (std::int64_t{1} << 40) + 1, 3, 77, std::nan(""), 2.0};
  device().set_losses(sums, *state);
  LossSums expected = sums;
  for (std::uint32_t number = 0; number < 4; ++number) {
    const LossSums read = device().sums(*state).losses;
    EXPECT_EQ(read.nll, expected.nll);
    EXPECT_EQ(read.kl, expected.kl);
    EXPECT_EQ(read.weighted_kl, expected.weighted_kl);
    EXPECT_EQ(read.users, expected.users);
    EXPECT_EQ(read.skipped, 3);
    EXPECT_EQ(read.nonfinite_step, -1);
    EXPECT_EQ(read.nonfinite_nll, 0.0);
    EXPECT_EQ(read.nonfinite_kl, 0.0);
    EXPECT_EQ(device().poll_losses(*state).value_or(read).nll, expected.nll);
    one_step(number, *state);
    expected.nll += alone[number].nll;
    expected.kl += alone[number].kl;
    expected.weighted_kl += alone[number].weighted_kl;
    expected.users += alone[number].users;
    // A read-back may be in progress since before; a device may start the next one at one of 16 polls.
    std::int64_t seen = -1;
    for (int i = 0; i < 34 && seen != expected.users; ++i) {
      if (const auto look = device().poll_losses(*state)) seen = look->users;
      device().synchronize();
    }
    EXPECT_EQ(seen, expected.users);
  }
  device().set_losses({}, *state);
  const LossSums none = device().sums(*state).losses;
  EXPECT_EQ(none.nll, 0.0);
  EXPECT_EQ(none.kl, 0.0);
  EXPECT_EQ(none.weighted_kl, 0.0);
  EXPECT_EQ(none.users, 0);
  device().set_losses(sums, *state);
  EXPECT_EQ(device().poll_losses(*state).value_or(sums).nll, sums.nll);
}

TEST_P(Step, FirstNonFiniteStepIsRecorded) {
  if (fp16()) GTEST_SKIP() << "fp16 skips steps that overflow, see contract_test_overflow.cpp";
  const std::int64_t latents = 4;
  auto statistics = device().make_matrix(5, 2 * latents);
  const auto d_z = activations(random_matrix(5, latents, 3));
  auto d_statistics = device().make_matrix(5, 2 * latents);
  TestBatch batch;
  gather(random_rows(5, 33, 1), 33, true, batch);
  const auto state = device().make_step_state();
  for (const std::uint32_t s : {40U, 41U, 42U, 43U}) {
    Matrix values = random_matrix(5, 2 * latents, 2, 0.5F);
    if (s == 41) values.at(2, 1) = std::numeric_limits<float>::infinity();
    if (s == 42) values.at(0, 0) = std::nan("");
    write(statistics, values);
    device().begin_step({1, s, 0, 0.5F, {}}, *state);
    device().latent_backward(*batch.device, statistics, d_z, d_statistics, *state);
    device().end_step(*state);
    const LossSums sums = device().sums(*state).losses;
    EXPECT_EQ(sums.nonfinite_step, s == 40 ? -1 : 41);
    EXPECT_EQ(sums.nonfinite_nll, 0.0);
    EXPECT_EQ(std::isfinite(sums.nonfinite_kl), s == 40);
  }
  device().set_losses({}, *state);
  EXPECT_EQ(device().sums(*state).losses.nonfinite_step, -1);
}

std::vector<std::int64_t> shuffled(std::int64_t n, std::int64_t stride) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < n; ++i) rows.push_back(i * stride % n);
  return rows;
}

/// A small Mult-VAE without hidden layers, with side features, on `device`, by plain operations.
struct SmallModel {
  static constexpr std::int64_t items = 150;
  static constexpr std::int64_t columns = 9;  // number of features
  static constexpr std::int64_t latents = 6;
  static constexpr std::int64_t all_users = 400;
  static constexpr std::int64_t max_users = 257;

  explicit SmallModel(device::Device& b, bool weighted = false)
      : device(b),
        rows(weighted ? weigh(random_rows(all_users, items, 1)) : random_rows(all_users, items, 1)),
        layout(b.plan_parameters(std::vector<device::TensorSpec>{
            {"output/weight", latents, items, TensorKind::output_table, true},
            {"output/bias", 1, items, TensorKind::output_bias, false},
            {"input/weight", items, 2 * latents, TensorKind::input_table, true},
            {"input/bias", 1, 2 * latents, TensorKind::bias, false},
            {"input/side", columns, 2 * latents, TensorKind::input_table, true}})),
        parameters(b.make_parameters(layout, 0)),
        gradients(b.make_buffer(layout.size)),
        first(b.make_buffer(layout.size)),
        second(b.make_buffer(layout.size)),
        held(b.make_user_rows(rows.view(), 100, items, device::single_rank())),
        schedule(b.make_batch_schedule()),
        batch(b.make_batch()),
        side_held(b.make_user_rows(side_rows.view(), 100, columns, device::single_rank())),
        side_order(b.make_batch_schedule()),
        side_batch(b.make_batch()),
        state(b.make_step_state()),
        statistics(b.make_matrix(max_users, 2 * latents)),
        d_statistics(b.make_matrix(max_users, 2 * latents)),
        z(b.make_matrix(max_users, latents)),
        d_z(b.make_matrix(max_users, latents)) {
    for (std::size_t i = 0; i < layout.tensors.size(); ++i) {
      const device::TensorSpec& spec = layout.tensors[i].spec;
      b.import_rows(layout, static_cast<int>(i), {0, spec.rows},
                    random_values(spec.rows * spec.columns, 70 + i, 0.3F), parameters.master());
    }
    b.refresh_copies(parameters, {0, layout.size});
    b.set_loss_scale({1.0F, 0}, *state);
  }

  void begin(std::uint32_t step, std::int64_t t, std::int64_t users = max_users) {
    UpdateRule rule{
        OptimizerKind::adam, 1e-2F / static_cast<float>(1 + step), 0.9F, 0.99F, 1e-8F, 1.0F / 20, 0.01F};
    rule.clip_norm = 0.1F * static_cast<float>(1 + step % 3);
    device.begin_step({11, step, t, 0.1F * static_cast<float>(step), rule, users}, *state);
  }
  void upload_order(std::span<const std::int64_t> rows, std::span<const std::int64_t> begin_rows) {
    device.upload_batch_schedule(*held, rows, begin_rows, *schedule);
    device.upload_batch_schedule(*side_held, rows, begin_rows, *side_order);
  }
  void start_order() {
    device.start_batch_schedule(*held, *schedule);
    device.start_batch_schedule(*side_held, *side_order);
  }
  void run(std::int64_t users) {
    device.gather_scheduled_batch(*held, *schedule, *state, users, *batch);
    device.gather_scheduled_batch(*side_held, *side_order, *state, users, *side_batch);
    train();
  }
  void run(std::span<const std::int64_t> order) {
    device.gather_batch(*held, order, true, *batch);
    device.gather_batch(*side_held, order, true, *side_batch);
    train();
  }
  void train() {
    const SideFeatures side{*side_batch, 4};
    device.sparse_linear(*batch, parameters, {2, 3}, Activation::identity, 0.5F, *state, &side, statistics);
    device.sample_latent(*batch, statistics, *state, z);
    const device::Backward backward{parameters, *state, gradients, unreported};
    device.output_layer_step(device::Loss::multinomial, z, *batch, {0, 1}, device::OutputGradients::both, d_z,
                             backward);
    device.latent_backward(*batch, statistics, d_z, d_statistics, *state);
    device.sparse_linear_backward(*batch, {2, 3}, Activation::identity, 0.5F, statistics, d_statistics,
                                  backward);
    device.side_features_backward(side, d_statistics, backward);
    device.accumulate_gradient_stats(gradients, {0, layout.size}, *state);
    std::vector<device::UpdateRange> ranges;
    for (const device::TensorLayout& tensor : layout.tensors) {
      ranges.push_back({tensor.range, tensor.spec.decays});
    }
    device.update(ranges, gradients, {first, second}, parameters, *state);
    device.end_step(*state);
  }

  device::Device& device;
  Csr rows;
  Csr side_rows = random_rows(all_users, columns, 2, 4);
  device::ParameterLayout layout;
  device::Parameters parameters;
  device::Buffer gradients, first, second;
  std::unique_ptr<device::UserRows> held;
  std::unique_ptr<device::BatchSchedule> schedule;
  std::unique_ptr<device::Batch> batch;
  std::unique_ptr<device::UserRows> side_held;
  std::unique_ptr<device::BatchSchedule> side_order;
  std::unique_ptr<device::Batch> side_batch;
  std::unique_ptr<device::StepState> state;
  device::Matrix statistics, d_statistics, z, d_z;
};

TEST_P(Step, ScheduledBatchesEqualBatchesByRows) {
  for (const bool weighted : {false, true}) {
    SCOPED_TRACE(weighted ? "with values" : "without values");
    SmallModel by_rows(device(), weighted);
    SmallModel scheduled(device(), weighted);
    const std::vector<std::int64_t> begin_rows = {0, 0, 1, 32, 64, 97, 354};
    std::uint32_t number = 0;
    // The second order replaces the first.
    for (const std::int64_t stride : {7, 3}) {
      const std::vector<std::int64_t> rows = shuffled(SmallModel::all_users, stride);
      scheduled.upload_order(std::span(rows).first(354), begin_rows);
      scheduled.start_order();
      ASSERT_EQ(scheduled.schedule->batches(), 6);
      for (std::int64_t t = 5; t >= 0; --t) {
        const std::int64_t users = scheduled.schedule->users(t);
        SCOPED_TRACE(format("batch {} of {} users", t, users));
        const auto first = static_cast<std::size_t>(begin_rows[static_cast<std::size_t>(t)]);
        by_rows.begin(number, t);
        by_rows.run(std::span(rows).subspan(first, static_cast<std::size_t>(users)));
        scheduled.begin(number++, t);
        scheduled.run(users);
        ASSERT_EQ(scheduled.batch->users(), users);
        EXPECT_EQ(flat(scheduled.gradients), flat(by_rows.gradients));
        EXPECT_EQ(flat(scheduled.parameters.master()), flat(by_rows.parameters.master()));
        EXPECT_EQ(device().sums(*scheduled.state).losses.nll, device().sums(*by_rows.state).losses.nll);
      }
    }
  }
}

TEST_P(Step, GraphUsesNewParametersAndANewOrder) {
  for (const bool weighted : {false, true}) {
    SCOPED_TRACE(weighted ? "with values" : "without values");
    SmallModel plain(device(), weighted);
    SmallModel recorded(device(), weighted);
    std::map<std::int64_t, std::unique_ptr<device::Graph>> recordings;  // by number of users
    const std::vector<std::int64_t> begin_rows = {0, 31, 62, 93, 100};  // 3 equal batches and a short one
    int replays = 0;
    plain.upload_order(shuffled(100, 3), begin_rows);
    recorded.upload_order(shuffled(100, 3), begin_rows);
    std::thread upload;
    for (std::uint32_t s = 0; s < 12; ++s) {
      const std::int64_t t = s % 4;
      if (t == 0) {
        if (upload.joinable()) upload.join();
        if (s > 0) plain.upload_order(shuffled(100, 2 * s + 3), begin_rows);
        plain.start_order();
        recorded.start_order();
        // The next order, beside the steps of this one.
        upload = std::thread([&, s] { recorded.upload_order(shuffled(100, 2 * s + 11), begin_rows); });
      }
      const std::int64_t users = plain.schedule->users(t);
      plain.begin(s, t);
      plain.run(users);
      recorded.begin(s, t);
      auto& recording = recordings[users];
      if (recording && device().replay(*recording))
        ++replays;
      else
        recording = device().capture([&] { recorded.run(users); });

      SCOPED_TRACE(format("step {}", s));
      const LossSums expected = device().sums(*plain.state).losses;
      const LossSums found = device().sums(*recorded.state).losses;
      EXPECT_EQ(found.nll, expected.nll);
      EXPECT_EQ(found.kl, expected.kl);
      EXPECT_EQ(found.weighted_kl, expected.weighted_kl);
      EXPECT_EQ(found.users, expected.users);
      EXPECT_EQ(flat(recorded.parameters.master()), flat(plain.parameters.master()));
      EXPECT_EQ(flat(recorded.second), flat(plain.second));
    }
    upload.join();
    for (const float w : flat(plain.parameters.master())) ASSERT_TRUE(std::isfinite(w));
    if (recordings[31]) {
      EXPECT_GE(replays, 8);
    }
  }
}

// Batches of 33 and of 34 users are padded to 35, so that one graph runs both.
TEST_P(Step, UsersThatPadABatchAddNothing) {
  if (device().facts().kind == device::DeviceKind::cpu) GTEST_SKIP() << "batches are padded on GPUs only";
  const bool exact = GetParam().name.starts_with("cuda_emulated");
  const auto expect_equal = [&](const std::vector<float>& found, const std::vector<float>& expected) {
    if (exact)
      EXPECT_EQ(found, expected);
    else
      expect_near(found, Matrix(1, std::ssize(expected), expected), "as without padding");
  };
  for (const bool weighted : {false, true}) {
    SCOPED_TRACE(weighted ? "with values" : "without values");
    SmallModel plain(device(), weighted);
    SmallModel padded(device(), weighted);
    const std::vector<std::int64_t> users = shuffled(SmallModel::all_users, 7);
    std::vector<std::int64_t> rows(users.begin(), users.begin() + 33);
    rows.insert(rows.end(), 2, -1);
    rows.insert(rows.end(), users.begin() + 33, users.begin() + 67);
    rows.push_back(-1);
    padded.upload_order(rows, std::vector<std::int64_t>{0, 35, 70});
    padded.start_order();
    std::unique_ptr<device::Graph> graph;
    for (std::uint32_t step = 0; step < 6; ++step) {
      SCOPED_TRACE(step);
      const std::int64_t t = step % 2;
      const std::int64_t present = 33 + t;
      plain.begin(step, 0);
      plain.run(
          std::span(users).subspan(static_cast<std::size_t>(33 * t), static_cast<std::size_t>(present)));
      padded.begin(step, t, present);
      if (!graph || !device().replay(*graph)) graph = device().capture([&] { padded.run(35); });
      expect_equal(flat(padded.gradients), flat(plain.gradients));
      expect_equal(flat(padded.parameters.master()), flat(plain.parameters.master()));
      const LossSums expected = device().sums(*plain.state).losses;
      const LossSums found = device().sums(*padded.state).losses;
      const double tolerance = exact ? 0.0 : 1e-3;
      EXPECT_NEAR(found.nll, expected.nll, tolerance * expected.nll);
      EXPECT_NEAR(found.kl, expected.kl, tolerance * expected.kl);
      EXPECT_NEAR(found.weighted_kl, expected.weighted_kl, tolerance * expected.weighted_kl);
      EXPECT_EQ(found.users, expected.users);
    }
  }
}

// An operation that needs more memory than at capture runs in between: the graph must not use the old memory.
TEST_P(Step, GraphRemainsValidAfterLargerWork) {
  SmallModel plain(device());
  SmallModel recorded(device());
  for (SmallModel* model : {&plain, &recorded}) {
    model->upload_order(shuffled(100, 7), std::vector<std::int64_t>{0, 50, 100});
    model->start_order();
  }
  plain.begin(0, 0);
  plain.run(50);
  recorded.begin(0, 0);
  auto recording = device().capture([&] { recorded.run(50); });

  TestLayer large = random_layer(TensorKind::output_table, 130, 1000);
  TestBatch batch;
  gather(random_rows(600, 1000, 1, 200), 1000, true, batch);
  const auto hidden = activations(random_matrix(600, 130, 2));
  auto d_hidden = device().make_matrix(600, 130);
  softmax_step(hidden, batch, large, begin(), d_hidden);

  plain.begin(1, 1);
  plain.run(50);
  recorded.begin(1, 1);
  if (!recording || !device().replay(*recording)) recorded.run(50);
  EXPECT_EQ(flat(recorded.parameters.master()), flat(plain.parameters.master()));
  EXPECT_EQ(device().sums(*recorded.state).losses.nll, device().sums(*plain.state).losses.nll);
}

}  // namespace
}  // namespace vaecf::testing
