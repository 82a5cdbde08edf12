// Updates that wait until their rows are read change no bit of a run.
#include "train/resume_fixture.hpp"

namespace vaecf::train {
namespace {

class LateUpdates : public Resume {
 protected:
  void SetUp() override {
    Resume::SetUp();
    options_.data.file = make("wide.h5", {.items = 400});  // of which a batch holds a few
    backend_.threads = 2;
  }

  void expect_same_run(const std::string& a, const std::string& b) {
    EXPECT_EQ(curve(a), curve(b));
    ASSERT_EQ(names(a), names(b));
    for (const std::string& name : names(a)) {
      EXPECT_EQ(tensors_of(checkpoints(a) + "/" + name), tensors_of(checkpoints(b) + "/" + name)) << name;
    }
  }
};

TEST_F(LateUpdates, ARunAndAResumedRunAreBitwiseTheSame) {
  // Features' rows are never late, and dropped histories read no row.
  MadeUpData data;
  data.features = true;
  options_.data.file = make("features.h5", data);
  options_.model.history_dropout = 0.2;
  for (const backend::Precision precision : {backend::Precision::fp32, backend::Precision::bf16}) {
    SCOPED_TRACE(to_string(precision));
    backend_.precision = precision;
    backend_.kernels = precision == backend::Precision::bf16 ? "auto" : "portable";
    backend_.late_updates = "off";
    run(1, "at once");
    backend_.late_updates = "on";
    run(1, "late");
    expect_same_run("late", "at once");
    run(1, "again", "auto", 8);
    run(1, "again", "auto");
    EXPECT_EQ(curve("again"), curve("at once"));
    EXPECT_EQ(tensors_of(checkpoints("again") + "/epoch-0003.h5"),
              tensors_of(checkpoints("at once") + "/epoch-0003.h5"));
    for (const char* name : {"at once", "late", "again"}) std::filesystem::remove_all(folder(name));
  }
}

TEST_F(LateUpdates, GoOnWhereTheOtherWayStopped) {
  backend_.late_updates = "off";
  run(1, "at once");
  run(1, "again", "auto", 5);
  backend_.late_updates = "on";
  run(1, "again", "auto", 5);
  backend_.late_updates = "off";
  run(1, "again", "auto");
  EXPECT_EQ(curve("again"), curve("at once"));
  EXPECT_EQ(tensors_of(checkpoints("again") + "/epoch-0003.h5"),
            tensors_of(checkpoints("at once") + "/epoch-0003.h5"));
}

// Whoever looks at weights, moments or another gradient between two steps sees the same, and does no harm.
TEST_F(LateUpdates, WhoLooksInBetweenSeesTheSame) {
  std::vector<std::vector<Tensors>> seen;
  for (const char* how : {"off", "on"}) {
    backend_.late_updates = how;
    std::vector<Tensors>& mine = seen.emplace_back();
    on_ranks(1, [&](const Services& services) {
      const io::DatasetFile dataset(options_.data.file);
      Trainer trainer(options_, services, dataset, 0);
      const auto look = [&](const backend::FloatBuffer& flat) {
        mine.push_back(export_all(services.backend, trainer.model().layout(), flat));
      };
      for (std::int64_t s = 0; s < 24; ++s) {
        const std::int64_t t = s % trainer.steps_per_epoch();
        if (t == 0) trainer.start_epoch(s / trainer.steps_per_epoch());
        trainer.step(t);
        if (s % 5 == 1) look(trainer.flat(FlatState::second_moment));
        if (s % 5 == 2) trainer.accumulate(0);
        if (s % 5 == 3) look(trainer.model().parameters().master());
        if (s % 7 == 6) look(trainer.flat(FlatState::first_moment));
        if (s != 14) continue;
        trainer.set_flat(FlatState::weights, [&](backend::FloatBuffer& flat) {
          const backend::ParameterLayout& layout = trainer.model().layout();
          services.backend.import_rows(layout, layout.find("encoder_1/weight"), {0, 30},
                                       std::vector<float>(600, 0.05F), flat);
        });
      }
      look(trainer.flat(FlatState::weights));
    });
  }
  ASSERT_EQ(seen[0].size(), seen[1].size());
  for (std::size_t i = 0; i < seen[0].size(); ++i) EXPECT_EQ(seen[0][i], seen[1][i]) << i;
}

TEST_F(LateUpdates, AreNotForDecayClippingOrManyRanks) {
  struct Case {
    int ranks;
    double decay;
    double clip;
  };
  for (const Case& c : {Case{2, 0.0, 0.0}, Case{1, 1e-3, 0.0}, Case{1, 0.0, 0.5}}) {
    options_.train.weight_decay = c.decay;
    options_.train.clip_gradient_norm = c.clip;
    backend_.late_updates = "off";
    run(c.ranks, "at once");
    backend_.late_updates = "on";
    run(c.ranks, "late");
    expect_same_run("late", "at once");
    for (const char* name : {"at once", "late"}) std::filesystem::remove_all(folder(name));
  }
}

}  // namespace
}  // namespace vaecf::train
