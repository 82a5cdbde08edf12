// Tests what happens to the files of a run when another one begins in its folder.
#include "checkpoint/resume_fixture.hpp"
#include "models/ease/ease_values.hpp"

namespace vaecf::training {
namespace {

class PreviousRun : public Resume {
 protected:
  void SetUp() override {
    Resume::SetUp();
    options_.train.epochs = 1;
  }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
  }
  /// Returns the contents of all files below a folder, by path.
  static std::map<std::string, std::string> files(const std::string& folder) {
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      found[std::filesystem::relative(entry.path(), folder)] = text_of(entry.path());
    }
    return found;
  }
};

TEST_F(PreviousRun, IsMovedCompletelyToTheFirstFreeNumber) {
  run(1, "a");
  write(folder("a") + "/notes/mine.txt", "mine");
  const auto first = files(folder("a"));
  write(folder("a") + "/.lock", "process 1");
  run(2, "a");
  EXPECT_EQ(files(folder("a.1")), first);
  auto second = files(folder("a"));
  EXPECT_EQ(second.erase(".lock"), 1U) << "the lock of the folder stays";
  EXPECT_EQ(second.count("notes/mine.txt"), 0U);
  write(folder("a.2"), "a file of this name");
  write(folder("a.4") + "/x", "");
  run(1, "a");
  EXPECT_EQ(files(folder("a.3")), second);
  EXPECT_EQ(files(folder("a.1")), first);
  run(1, "a");
  EXPECT_EQ(files(folder("a.5")).count("checkpoints/best.h5"), 1U);
}

TEST_F(PreviousRun, IsTheOneWithACheckpointOrAFinishedEpoch) {
  const std::string start = "{\"event\":\"start\",\"name\":\"a\"}\n{\"event\":\"benchmark\",\"epoch\":3}\n";
  write(folder("a") + "/metrics.jsonl", start);
  write(checkpoints("a") + "/epoch-1.h5", "not a name of this program");
  run(1, "a");
  EXPECT_FALSE(std::filesystem::exists(folder("a.1")));
  EXPECT_EQ(text_of(folder("a") + "/metrics.jsonl").find(start), 0U);

  write(folder("b") + "/metrics.jsonl", start + "{\"event\":\"epoch\",\"epoch\":1}\n");
  write(folder("c") + "/metrics.jsonl", "{\"event\":\"solve\",\"solution\":1}\n");
  write(checkpoints("d") + "/epoch-0007.h5", "damaged");
  for (const std::string name : {"b", "c", "d"}) {
    const auto before = files(folder(name));
    run(2, name, "auto");
    EXPECT_EQ(files(folder(name + ".1")), before) << name;
    EXPECT_EQ(count(name, "epoch"), 1);
  }
}

TEST_F(PreviousRun, ThatCannotBeMovedIsAnErrorOnAllRanksAndStays) {
  const std::string name(254, 'a');  // NAME.1 is too long for a file system
  run(1, name);
  const auto before = files(folder(name));
  options_.name = name;
  on_ranks(2, [&](const run::Run& run) {
    expect_error<InputError>({": the run in this folder cannot be moved to ", "File name too long",
                              "; move or delete it, continue with --resume"},
                             [&] { train(run); });
  });
  EXPECT_EQ(files(folder(name)), before);
}

TEST_F(PreviousRun, WithTheDatasetOfTheNewRunIsAnError) {
  run(1, "a");
  std::filesystem::copy_file(options_.data.file, folder("a") + "/data.h5");
  std::filesystem::create_symlink(folder("a") + "/data.h5", file("link.h5"));
  for (const std::string& data : {folder("a") + "/data.h5", file("link.h5")}) {
    options_.data.file = data;
    expect_error<InputError>({"move the dataset to another folder"}, [&] { run(1, "a"); });
  }
  EXPECT_TRUE(std::filesystem::exists(checkpoints("a") + "/best.h5"));
}

TEST_F(PreviousRun, OfASolvedModelIsMovedUnlessItsSearchContinues) {
  options_.model.type = ModelType::ease;
  own_options<models::EaseOptions>(options_.model) = {{20.0, 50.0}, {0.0}};
  run(1, "a");
  const auto before = files(folder("a"));
  run(2, "a", "auto");
  EXPECT_EQ(files(folder("a")), before) << "it is complete";
  options_.validation.select = "recall@5";
  run(2, "a", "auto");
  EXPECT_EQ(files(folder("a.1")), before);
  EXPECT_EQ(count("a", "solve"), 2);
}

}  // namespace
}  // namespace vaecf::training
