#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/event_log.hpp>
#include <vaecf/io/output_file.hpp>

#include "io/bad_disk.hpp"
#include "io/io_fixture.hpp"

#include <functional>
#include <utility>

// What a run writes, in places that fail while it goes on: each must say so, leave what was there before and
// nothing else, and succeed again once the place is well.
namespace vaecf::io {
namespace {

using BadPlace = IoTest;

void write_checkpoint_of(const std::string& path, std::int64_t rows, std::int64_t step) {
  const TensorSource source{
      "weights/w", rows, 1000, false,
      [](std::int64_t, std::int64_t, std::span<float> out) { std::fill(out.begin(), out.end(), 1.0f); }};
  write_checkpoint(path, {{"step", step}}, {&source, 1});
}

std::int64_t step_of(const std::string& path) {
  return CheckpointFile(path).attribute<std::int64_t>("step");
}

/// "" where `work` throws a RunError that holds all of `parts`; otherwise what it did instead.
std::string complaint(const std::vector<std::string>& parts, const std::function<void()>& work) {
  try {
    work();
  } catch (const RunError& error) {
    const std::string message = error.what();
    for (const auto& part : parts) {
      if (message.find(part) == std::string::npos) return "no \"" + part + "\" in: " + message;
    }
    return "";
  }
  return "nothing was thrown";
}

/// For children, whose test results nobody hears: prints what is wrong and gives their exit status.
class Verdict {
 public:
  void require(bool holds, const std::string& what) {
    if (holds) return;
    std::fprintf(stderr, "in the child: %s\n", what.c_str());
    status_ = 1;
  }
  void require_complaint(const std::vector<std::string>& parts, const std::function<void()>& work) {
    const std::string wrong = complaint(parts, work);
    require(wrong.empty(), wrong);
  }
  int status() const { return status_; }

 private:
  int status_ = 0;
};

TEST_F(BadPlace, AFullDiskLeavesAllFilesOfARunWhole) {
  const int status = on_small_disk(folder_, [&] {
    Verdict verdict;
    write_checkpoint_of(file("epoch-0001.h5"), 10, 1);
    publish_alias(file("epoch-0001.h5"), file("best.h5"));
    write_text_file(file("config.yaml"), "name: a\n");
    EventLog log(file("metrics.jsonl"));
    log.write(Event("start"));
    const std::string line = bytes_of(file("metrics.jsonl"));

    verdict.require_complaint({file("epoch-0001.h5"), "No space left", "free some space"},
                              [&] { write_checkpoint_of(file("epoch-0001.h5"), 1000, 2); });
    verdict.require(step_of(file("epoch-0001.h5")) == 1, "the old checkpoint stays");
    verdict.require_complaint({file("epoch-0002.h5"), "No space left"},
                              [&] { write_checkpoint_of(file("epoch-0002.h5"), 1000, 2); });
    verdict.require_complaint({file("config.yaml"), "No space left"},
                              [&] { write_text_file(file("config.yaml"), std::string(2000000, 'c')); });
    verdict.require(bytes_of(file("config.yaml")) == "name: a\n", "the old configuration stays");
    Event large("epoch");
    large.set("text", std::string(2000000, 'x'));
    verdict.require_complaint({file("metrics.jsonl"), "No space left"}, [&] { log.write(large); });
    verdict.require(bytes_of(file("metrics.jsonl")) == line, "no half of a line is left");
    verdict.require(names().size() == 4, "nothing else is left");

    write_checkpoint_of(file("epoch-0002.h5"), 100, 2);
    log.write(Event("end"));
    verdict.require(bytes_of(file("metrics.jsonl")) == line + "{\"event\":\"end\"}\n", "the log goes on");
    verdict.require(step_of(file("epoch-0002.h5")) == 2, "the next checkpoint is written");
    return verdict.status();
  });
  if (status == -1) GTEST_SKIP() << "this machine does not let us mount a small file system";
  EXPECT_EQ(status, 0);
}

TEST_F(BadPlace, ALimitOnFileSizesLeavesAllFilesOfARunWhole) {
  write_text_file(file("config.yaml"), "name: a\n");
  EventLog log(file("metrics.jsonl"));
  log.write(Event("start"));
  Event large("epoch");
  large.set("text", std::string(5000, 'x'));
  {
    const FileSizeLimit limit(3000);
    const auto too_large = [&](const std::string& name, const std::function<void()>& work) {
      EXPECT_EQ(complaint({file(name), "File too large", "free some space"}, work), "");
    };
    too_large("config.yaml", [&] { write_text_file(file("config.yaml"), std::string(5000, 'c')); });
    too_large("metrics.jsonl", [&] { log.write(large); });
    EXPECT_EQ(bytes_of(file("config.yaml")), "name: a\n");
    EXPECT_EQ(bytes_of(file("metrics.jsonl")), "{\"event\":\"start\"}\n");
  }
  put_bytes(file("long.jsonl"), to_text(large.fields()) + "\n" + to_text(Event("end").fields()) + "\n");
  const std::string before = bytes_of(file("long.jsonl"));
  {
    const FileSizeLimit limit(3000);
    EXPECT_EQ(complaint({file("long.jsonl"), "File too large"},
                        [&] {
                          cut_events(file("long.jsonl"),
                                     [](const Json& event) { return text_at(event, "event") == "epoch"; });
                        }),
              "");
  }
  EXPECT_EQ(bytes_of(file("long.jsonl")), before);
  EXPECT_EQ(names().size(), 3u);
}

TEST_F(BadPlace, AReadOnlyFolderIsSaid) {
  const int status = on_small_disk(folder_, [&] {
    Verdict verdict;
    write_checkpoint_of(file("epoch-0001.h5"), 10, 1);
    put_bytes(file("metrics.jsonl"), "{\"event\":\"start\"}\n");
    if (!set_read_only(folder_, true)) return no_mount;
    const std::string said = "Read-only file system";
    verdict.require_complaint({file("epoch-0001.h5"), said, "check the folder"},
                              [&] { write_checkpoint_of(file("epoch-0001.h5"), 10, 2); });
    verdict.require_complaint({file("run/epoch-0001.h5"), said},
                              [&] { write_checkpoint_of(file("run/epoch-0001.h5"), 10, 2); });
    verdict.require_complaint({file("best.h5"), said},
                              [&] { publish_alias(file("epoch-0001.h5"), file("best.h5")); });
    verdict.require_complaint({file("config.yaml"), said},
                              [&] { write_text_file(file("config.yaml"), "x"); });
    verdict.require_complaint({file("metrics.jsonl"), said}, [&] { EventLog log(file("metrics.jsonl")); });
    verdict.require_complaint({file("metrics.jsonl"), said},
                              [&] { cut_events(file("metrics.jsonl"), [](const Json&) { return false; }); });
    remove_stale_temporaries(folder_.string());
    verdict.require(step_of(file("epoch-0001.h5")) == 1, "the old checkpoint can be read");
    verdict.require(names().size() == 2, "nothing else is there");
    if (!set_read_only(folder_, false)) return no_mount;
    write_checkpoint_of(file("epoch-0001.h5"), 10, 2);
    verdict.require(step_of(file("epoch-0001.h5")) == 2, "once it can be written it is");
    return verdict.status();
  });
  if (status == -1) GTEST_SKIP() << "this machine does not let us mount a read-only file system";
  EXPECT_EQ(status, 0);
}

TEST_F(BadPlace, AFileInPlaceOfTheFolderIsSaid) {
  put_bytes(file("run"), "x");
  const auto refused = [&](const std::string& name, const std::function<void()>& work) {
    EXPECT_EQ(complaint({file(name), "cannot be written"}, work), "");
  };
  refused("run/epoch-0001.h5", [&] { write_checkpoint_of(file("run/epoch-0001.h5"), 1, 1); });
  refused("run/config.yaml", [&] { write_text_file(file("run/config.yaml"), "x"); });
  refused("run/metrics.jsonl", [&] { EventLog log(file("run/metrics.jsonl")); });
  EXPECT_EQ(bytes_of(file("run")), "x");
}

TEST_F(BadPlace, AFolderThatVanishesBetweenTwoCheckpointsIsMadeAgain) {
  write_checkpoint_of(file("run/checkpoints/epoch-0001.h5"), 10, 1);
  EventLog log(file("run/metrics.jsonl"));
  log.write(Event("start"));
  std::filesystem::remove_all(file("run"));

  write_checkpoint_of(file("run/checkpoints/epoch-0002.h5"), 10, 2);
  EXPECT_EQ(step_of(file("run/checkpoints/epoch-0002.h5")), 2);
  log.write(Event("epoch"));
  log.write(Event("end"));
  EXPECT_EQ(bytes_of(file("run/metrics.jsonl")), "{\"event\":\"epoch\"}\n{\"event\":\"end\"}\n");

  // What stands in its place now cannot be a folder: an error, until it goes.
  std::filesystem::remove_all(file("run"));
  put_bytes(file("run"), "x");
  EXPECT_EQ(complaint({file("run/metrics.jsonl"), "cannot be written"}, [&] { log.write(Event("end")); }),
            "");
  std::filesystem::remove(file("run"));
  log.write(Event("end"));
  EXPECT_EQ(bytes_of(file("run/metrics.jsonl")), "{\"event\":\"end\"}\n");
}

TEST_F(BadPlace, AFolderThatVanishesInTheMiddleOfACheckpointIsAnError) {
  const TensorSource source{"weights/w", 4, 4, false, [&](std::int64_t, std::int64_t, std::span<float> out) {
                              std::fill(out.begin(), out.end(), 1.0f);
                              std::filesystem::remove_all(file("run"));
                            }};
  EXPECT_EQ(complaint({file("run/c.h5"), "cannot be written", "No such file"},
                      [&] {
                        write_checkpoint(file("run/c.h5"), {}, {&source, 1});
                      }),
            "");
  EXPECT_TRUE(names().empty());
}

}  // namespace
}  // namespace vaecf::io
