// The curve of one rank, whatever the ranks divide: users, the optimizer, items, or work of servers.
#include "training/multi_rank_fixture.hpp"

namespace vaecf::training {
namespace {

struct CurveCase {
  const char* name;
  std::vector<std::string> keys;
  /// Of 2, 3 and 4 item slices of 61 items, the first has one item more.
  MadeUpData data = {.items = 61};
  friend std::ostream& operator<<(std::ostream& out, const CurveCase& c) { return out << c.name; }
};

// Gradients have norms from 0.5 to 2. A small epsilon would amplify differences of small gradients.
const CurveCase curve_cases[] = {
    {"mult_vae", {}},
    {"mult_dae", {"model.type=mult_dae", "model.hidden=[16, 12]", "train.weight_decay=0.01"}},
    {"mult_dae_flat", {"model.type=mult_dae", "model.hidden=[]", "model.latent=5"}},
    {"recvae", {"model.type=recvae", "model.recvae.encoder_passes=1", "train.batch_size=101"}},
    {"elsa", {"model.type=elsa", "model.elsa.factors=9", "train.optimizer.learning_rate=0.01"}},
    {"autoencoder",
     {"model.type=autoencoder", "train.optimizer.type=rmsprop", "train.optimizer.epsilon=1e-4"}},
    {"rmsprop_with_momentum",
     {"train.clip_gradient_norm=0.5", "train.optimizer.type=rmsprop", "train.optimizer.momentum=0.9",
      "train.optimizer.epsilon=1e-4"}},
    {"clipped_adam_with_decay", {"train.clip_gradient_norm=0.05", "train.weight_decay=0.01"}},
    // Updates of gradient descent are proportional to the gradient, which the norm of some tensors would
    // change.
    {"clipped_gradient_descent",
     {"train.clip_gradient_norm=0.4", "train.optimizer.type=sgd", "train.optimizer.learning_rate=0.05"}},
    {"features", {"model.history_dropout=0.3", "train.weight_decay=0.01"}, {.items = 61, .features = true}},
    {"weighted", {}, {.items = 61, .weighted = true}},
    {"weighted_mult_dae",
     {"model.type=mult_dae", "model.history_dropout=0.3"},
     {.items = 61, .features = true, .weighted = true}},
    {"weighted_recvae",
     {"model.type=recvae", "model.recvae.encoder_passes=1", "train.batch_size=101"},
     {.items = 61, .weighted = true}},
    {"weighted_elsa",
     {"model.type=elsa", "model.elsa.factors=9", "train.optimizer.learning_rate=0.01"},
     {.items = 61, .weighted = true}},
    {"one_bucket_mostly_of_padding", {"distributed.bucket_mib=64", "model.hidden=[1]", "model.latent=1"}},
    // 5 shards are no multiple of 2, 3 or 4 ranks; 203 users are 101 + 101 + 1.
    {"last_batch_of_one_user", {"train.batch_size=101", "data.virtual_shards=5"}},
    {"groups_without_users", {"train.batch_size=1", "data.virtual_shards=5"}},
    // Without noise, users like items that are equal modulo 5: of one of five item slices.
    {"users_with_all_items_in_one_slice", {}, {.items = 61, .noise = false}},
    {"library_products_and_threads", {"backend.kernels=auto", "backend.threads=2"}},
};

class Curve : public MultiRankTest, public ::testing::WithParamInterface<CurveCase> {};

TEST_P(Curve, IsThatOfOneRank) {
  const CurveCase& c = GetParam();
  options_.data.file = make("curve.h5", c.data);
  set(c.keys);
  std::vector<Division> divisions = {{3}, {2, 1, sharded}, {3, 3}, {4, 2}};
  if (!on_emulator) {
    divisions.insert(
        divisions.end(),
        {{2}, {4}, {1, 1, sharded}, {3, 1, sharded}, {4, 1, sharded}, {2, 2}, {4, 4}, {5, 5}, {6, 3}});
    if (models::trained_kind_of(options_.model.type).has_parameter_server())
      for (const auto& [ranks, servers] : {std::pair{2, 1}, {3, 1}, {3, 2}, {4, 2}, {4, 1}, {4, 3}})
        divisions.push_back({ranks, 1, replicated, servers});
  }
  const RankResults one = run_as({});
  for (const Division& division : divisions) {
    SCOPED_TRACE(::testing::Message() << division);
    expect_same_curve(one, run_as(division));
  }
}

INSTANTIATE_TEST_SUITE_P(Training, Curve, ::testing::ValuesIn(curve_cases),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace vaecf::training
