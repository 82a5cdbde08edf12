#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/io/spill_file.hpp>

#include <functional>
#include <numeric>

#include "io/bad_disk.hpp"
#include "io/io_fixture.hpp"

// Tests of all writers of a run on paths that cannot be written. Each must report the error, keep the
// previous file, leave no temporary file, and succeed once the path is writable.
namespace vaecf::io {
namespace {

using UnwritablePath = IoTest;

void write_checkpoint_of(const std::string& path, std::int64_t rows, std::int64_t step) {
  const TensorSource source{
      "weights/w", rows, 1000, false,
      [](std::int64_t, std::int64_t, std::span<float> out) { std::fill(out.begin(), out.end(), 1.0f); }};
  write_checkpoint(path, {{"step", step}, {"config", std::string(100000, 'c')}}, {&source, 1});
}

void write_dataset_of(const std::string& path, std::int64_t entries) {
  Row row(1000);
  std::iota(row.begin(), row.end(), 0);
  write_dataset(path, 1000, [&](DatasetWriter& writer) {
    for (std::int64_t done = 0; done < entries; done += 1000) writer.append_row("train", row);
  });
}

std::int64_t step_of(const std::string& path) {
  return CheckpointFile(path).attribute<std::int64_t>("step");
}

bool keep_epochs(const Json& event) {
  return get_string(event, "event") == "epoch";
}

// The limits make the write fail in the middle, near the end, and in the first bytes.
TEST_F(UnwritablePath, IncompleteFilesAreRemovedAndPreviousOnesKept) {
  write_checkpoint_of(file("c.h5"), 10, 1);
  for (const rlim_t limit : {100, 1000, 3000, 90000, 600000, 1000000, 2400000, 4000000}) {
    const FileSizeLimit full(limit);
    expect_refused<RunError>({file("d.h5") + ": ", "File too large"},
                             [&] { write_dataset_of(file("d.h5"), 1000000); });
    expect_refused<RunError>({file("c.h5"), "File too large"},
                             [&] { write_checkpoint_of(file("c.h5"), 1000, 2); });
    EXPECT_EQ(names(), std::vector<std::string>{"c.h5"}) << limit;
  }
  EXPECT_EQ(step_of(file("c.h5")), 1);
  write_dataset_of(file("d.h5"), 1000000);
  EXPECT_EQ(DatasetFile(file("d.h5")).entries("train"), 1000000);
}

TEST_F(UnwritablePath, SpilledBytesAreReadBackAndErrorsLeaveNothing) {
  std::vector<std::byte> bytes(100000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 251);
  {
    SpillFile spill(file("d.h5"));
    const std::int64_t first = spill.append(bytes);
    const std::int64_t second = spill.append(std::span(bytes).subspan(7));
    EXPECT_EQ(second, 100000);
    spill.discard(first, 100000);
    std::vector<std::byte> back(99993);
    spill.read(second, back);
    EXPECT_TRUE(std::equal(back.begin(), back.end(), bytes.begin() + 7));
    EXPECT_THROW(spill.read(second + 1, back), RunError);  // beyond the end
    const FileSizeLimit full(200000);
    expect_refused<RunError>({file("d.h5.spill") + ": ", "File too large"}, [&] { spill.append(bytes); });
  }
  EXPECT_TRUE(names().empty());
}

TEST_F(UnwritablePath, FullDiskKeepsAllFilesOfARunIntact) {
  const int status = on_small_disk(folder_, [&] {
    write_checkpoint_of(file("epoch-0001.h5"), 10, 1);
    link_or_copy(file("epoch-0001.h5"), file("best.h5"));
    write_file_atomically(file("config.yaml"), "name: a\n");
    EventLog log(file("metrics.jsonl"));
    log.write(Event(EventKind::start));
    const std::string line = bytes_of(file("metrics.jsonl"));

    expect_refused<RunError>({file("epoch-0001.h5"), "No space left", "free some space"},
                             [&] { write_checkpoint_of(file("epoch-0001.h5"), 1000, 2); });
    EXPECT_EQ(step_of(file("epoch-0001.h5")), 1) << "the old checkpoint stays";
    expect_refused<RunError>({file("d.h5"), "No space left"},
                             [&] { write_dataset_of(file("d.h5"), 1000000); });
    expect_refused<RunError>({file("config.yaml"), "No space left"},
                             [&] { write_file_atomically(file("config.yaml"), std::string(2000000, 'c')); });
    EXPECT_EQ(bytes_of(file("config.yaml")), "name: a\n") << "the old configuration stays";
    Event large(EventKind::epoch);
    large.set("text", std::string(2000000, 'x'));
    expect_refused<RunError>({file("metrics.jsonl"), "No space left"}, [&] { log.write(large); });
    EXPECT_EQ(bytes_of(file("metrics.jsonl")), line) << "no partial line is left";
    EXPECT_EQ(names().size(), 4U) << "nothing else is left";

    write_checkpoint_of(file("epoch-0002.h5"), 50, 2);
    write_dataset_of(file("d.h5"), 1000);
    log.write(Event(EventKind::end));
    EXPECT_EQ(bytes_of(file("metrics.jsonl")), line + "{\"event\":\"end\"}\n") << "the log is continued";
    EXPECT_EQ(step_of(file("epoch-0002.h5")), 2) << "the next checkpoint is written";
    return 0;
  });
  if (status == -1) GTEST_SKIP() << "this machine does not allow mounting a small file system";
  EXPECT_EQ(status, 0);
}

TEST_F(UnwritablePath, LogIsUnchangedIfFilteringFails) {
  Event large(EventKind::epoch);
  large.set("text", std::string(5000, 'x'));
  const std::string before = dump(large.fields()) + "\n" + dump(Event(EventKind::end).fields()) + "\n";
  put_bytes(file("long.jsonl"), before);
  {
    const FileSizeLimit limit(3000);
    expect_refused<RunError>({file("long.jsonl"), "File too large"},
                             [&] { filter_event_log(file("long.jsonl"), keep_epochs); });
  }
  EXPECT_EQ(bytes_of(file("long.jsonl")), before);
  EXPECT_EQ(names().size(), 1u);
}

/// Expects every writer of a run to name its file and `parts` if the folder cannot be written.
void expect_all_refused(const std::string& folder, const std::vector<std::string>& parts) {
  const auto refused = [&](const std::string& name, const std::function<void(const std::string&)>& write) {
    std::vector<std::string> all = parts;
    all.push_back(folder + name);
    expect_refused<RunError>(all, [&] { write(folder + name); });
  };
  refused("epoch-0001.h5", [](const std::string& path) { write_checkpoint_of(path, 10, 2); });
  refused("run/epoch-0001.h5", [](const std::string& path) { write_checkpoint_of(path, 10, 2); });
  refused("config.yaml", [](const std::string& path) { write_file_atomically(path, "x"); });
  refused("metrics.jsonl", [](const std::string& path) { EventLog log(path); });
  refused("d.h5", [](const std::string& path) { DatasetWriter writer(path); });
}

TEST_F(UnwritablePath, ReadOnlyFolderIsReported) {
  const int status = on_small_disk(folder_, [&] {
    write_checkpoint_of(file("epoch-0001.h5"), 10, 1);
    put_bytes(file("metrics.jsonl"), "{\"event\":\"start\"}\n");
    if (!set_read_only(folder_, true)) return no_mount;
    expect_all_refused(file(""), {"Read-only file system", "check the folder"});
    expect_refused<RunError>({file("metrics.jsonl"), "Read-only file system", "check the folder"},
                             [&] { filter_event_log(file("metrics.jsonl"), keep_epochs); });
    expect_refused<RunError>({file("best.h5"), "Read-only file system"},
                             [&] { link_or_copy(file("epoch-0001.h5"), file("best.h5")); });
    remove_stale_temporaries(folder_.string());
    EXPECT_EQ(step_of(file("epoch-0001.h5")), 1) << "the old checkpoint can be read";
    EXPECT_EQ(names().size(), 2U) << "nothing else is there";
    if (!set_read_only(folder_, false)) return no_mount;
    write_checkpoint_of(file("epoch-0001.h5"), 10, 2);
    EXPECT_EQ(step_of(file("epoch-0001.h5")), 2) << "a writable folder is written again";
    return 0;
  });
  if (status == -1) GTEST_SKIP() << "this machine does not allow mounting a read-only file system";
  EXPECT_EQ(status, 0);
}

TEST_F(UnwritablePath, FileInsteadOfAFolderIsReported) {
  put_bytes(file("run"), "x");
  expect_all_refused(file("run/"), {"cannot be written"});
  expect_refused<RunError>({file(""), "cannot be written"}, [&] { DatasetWriter writer(file("")); });
  EXPECT_EQ(bytes_of(file("run")), "x");
}

TEST_F(UnwritablePath, FolderRemovedBetweenCheckpointsIsRecreated) {
  EventLog log(file("run/metrics.jsonl"));
  log.write(Event(EventKind::start));
  std::filesystem::remove_all(file("run"));

  write_checkpoint_of(file("run/checkpoints/epoch-0002.h5"), 10, 2);
  EXPECT_EQ(step_of(file("run/checkpoints/epoch-0002.h5")), 2);
  log.write(Event(EventKind::end));
  EXPECT_EQ(bytes_of(file("run/metrics.jsonl")), "{\"event\":\"end\"}\n");

  // A file at this path is an error until it is removed.
  std::filesystem::remove_all(file("run"));
  put_bytes(file("run"), "x");
  expect_refused<RunError>({file("run/metrics.jsonl"), "cannot be written"},
                           [&] { log.write(Event(EventKind::end)); });
  std::filesystem::remove(file("run"));
  log.write(Event(EventKind::end));
  EXPECT_EQ(bytes_of(file("run/metrics.jsonl")), "{\"event\":\"end\"}\n");
}

TEST_F(UnwritablePath, FolderRemovedDuringACheckpointIsAnError) {
  const TensorSource source{"weights/w", 4, 4, false, [&](std::int64_t, std::int64_t, std::span<float> out) {
                              std::fill(out.begin(), out.end(), 1.0f);
                              std::filesystem::remove_all(file("run"));
                            }};
  expect_refused<RunError>({file("run/c.h5"), "cannot be written", "No such file"}, [&] {
    write_checkpoint(file("run/c.h5"), {}, {&source, 1});
  });
  EXPECT_TRUE(names().empty());
}

}  // namespace
}  // namespace vaecf::io
