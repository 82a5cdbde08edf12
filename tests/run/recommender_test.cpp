// A model that several threads use at once, each with requests of its own.
#include <thread>

#include "support/train_fixture.hpp"

namespace vaecf::training {
namespace {

using Recommender = TrainTest;

TEST_F(Recommender, ThreadsWithOtherRequestsGetTheListsOfTheirOwn) {
  options_.validation.baselines = {};
  options_.train.epochs = 1;
  const Csr seen{{0, 3, 4, 6}, {0, 5, 10, 7, 1, 59}};
  for (const auto type : {ModelType::ease, ModelType::mult_vae}) {
    SCOPED_TRACE(to_string(type));
    options_.name = to_string(type);
    options_.model.type = type;
    train_on(1);
    std::vector<run::RecommendOptions> choices = {{5, false, {}},
                                                  {7, true, std::vector<std::uint8_t>(60, 1)}};
    for (const std::size_t item : {1U, 20U, 41U}) choices[1].allowed_items[item] = 0;
    on_ranks(1, [&](const run::Run& run) {
      const run::Recommender recommender(options_, run, io::CheckpointFile(run_folder().best()), false);
      const auto lists_of = [&](std::size_t which) {
        Lists lists{std::vector<std::int32_t>(3 * choices[which].k),
                    std::vector<float>(3 * choices[which].k)};
        recommender.recommend({choices[which], seen.view()}, lists.items, lists.scores);
        return lists;
      };
      const std::vector<Lists> alone = {lists_of(0), lists_of(1)};
      std::vector<int> differing(4, 0);
      {
        std::vector<std::jthread> threads;
        for (std::size_t thread = 0; thread < differing.size(); ++thread)
          threads.emplace_back([&, thread] {
            for (int repeat = 0; repeat < 20; ++repeat) {
              const Lists lists = lists_of(thread % 2);
              differing[thread] += lists.items != alone[thread % 2].items;
              differing[thread] += lists.scores != alone[thread % 2].scores;
            }
          });
      }
      EXPECT_EQ(differing, std::vector<int>(4, 0));
    });
  }
}

}  // namespace
}  // namespace vaecf::training
