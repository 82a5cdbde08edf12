#include <vaecf/io/checkpoint.hpp>

#include <sys/stat.h>

#include <limits>

#include "io/files/file_system.hpp"
#include "io/io_fixture.hpp"

namespace vaecf::io {
namespace {

using CheckpointFolder = IoTest;

struct stat status_of(const std::string& path) {
  struct stat found {};
  EXPECT_EQ(::stat(path.c_str(), &found), 0) << path;
  return found;
}

TEST_F(CheckpointFolder, NamesArePaddedWithZeros) {
  EXPECT_EQ(checkpoint_name(CheckpointKind::epoch, 12), "epoch-0012.h5");
  EXPECT_EQ(checkpoint_name(CheckpointKind::epoch, 0), "epoch-0000.h5");
  EXPECT_EQ(checkpoint_name(CheckpointKind::epoch, 123456), "epoch-123456.h5");
  EXPECT_EQ(checkpoint_name(CheckpointKind::step, 1234), "step-00001234.h5");
  EXPECT_EQ(checkpoint_name(CheckpointKind::best), "best.h5");
}

TEST_F(CheckpointFolder, ListsOnlyExactCheckpointNames) {
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  for (const std::string name :
       {"epoch-0010.h5", "epoch-0009.h5", "step-00000100.h5", "best.h5", "epoch-10000.h5", "epoch-1.h5",
        "epoch-00012.h5", "epoch-.h5", "epoch--001.h5", "epoch-+001.h5", "epoch-0001.h5.tmp-host-1-0123abcd",
        "epoch-0x10.h5", "epoch-0001", "step-0001.h5", "best-1.h5", "epoch-99999999999999999999.h5", ".h5"}) {
    put_bytes(file(name), "x");
  }
  put_bytes(file(checkpoint_name(CheckpointKind::step, largest)), "x");
  std::filesystem::create_directory(file("epoch-0011.h5"));

  const auto found = list_checkpoints(folder_.string());
  std::vector<std::int64_t> numbers;
  for (const auto& candidate : found) {
    numbers.push_back(candidate.number);
    EXPECT_EQ(candidate.path, file(checkpoint_name(candidate.kind, candidate.number)));
  }
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{9, 10, 10000, 100, largest, 0}));
}

TEST_F(CheckpointFolder, MissingFolderIsEmptyAndAFileIsAnError) {
  EXPECT_TRUE(list_checkpoints(file("missing")).empty());
  EXPECT_TRUE(list_checkpoints(folder_.string()).empty());
  put_bytes(file("plain"), "x");
  expect_refused<RunError>({"Not a directory"}, [&] { list_checkpoints(file("plain")); });
}

TEST_F(CheckpointFolder, AliasSurvivesRemovalOfTheFile) {
  put_bytes(file("epoch-0001.h5"), "one");
  link_or_copy(file("epoch-0001.h5"), file("best.h5"));
  EXPECT_EQ(status_of(file("best.h5")).st_ino, status_of(file("epoch-0001.h5")).st_ino);
  // Repeated, because rename does nothing between two links to one file. A leftover temporary file is
  // removed.
  put_bytes(temporary_path(file("best.h5")), "left");
  link_or_copy(file("epoch-0001.h5"), file("best.h5"));
  EXPECT_EQ(names().size(), 2u);

  put_bytes(file("epoch-0002.h5"), "two");
  link_or_copy(file("epoch-0002.h5"), file("best.h5"));
  EXPECT_EQ(bytes_of(file("epoch-0001.h5")), "one");
  std::filesystem::remove(file("epoch-0002.h5"));
  EXPECT_EQ(bytes_of(file("best.h5")), "two");
  EXPECT_EQ(names().size(), 2u);
}

TEST_F(CheckpointFolder, AliasOnAnotherFileSystemIsACopy) {
  put_bytes(file("epoch-0001.h5"), std::string(3000000, 'y'));
  const testing::TemporaryFolder other("/dev/shm");
  if (status_of(other.path().string()).st_dev == status_of(folder_.string()).st_dev) {
    GTEST_SKIP() << "this machine has one file system only";
  }
  const std::string alias = (other.path() / "run/best.h5").string();
  link_or_copy(file("epoch-0001.h5"), alias);
  EXPECT_EQ(status_of(alias).st_nlink, 1u);
  EXPECT_EQ(bytes_of(alias), bytes_of(file("epoch-0001.h5")));
  put_bytes(file("epoch-0002.h5"), "two");
  link_or_copy(file("epoch-0002.h5"), alias);
  EXPECT_EQ(bytes_of(alias), "two");
}

TEST_F(CheckpointFolder, FailedAliasKeepsThePreviousOne) {
  put_bytes(file("best.h5"), "old");
  expect_refused<RunError>({file("best.h5"), file("missing.h5"), "No such file"},
                           [&] { link_or_copy(file("missing.h5"), file("best.h5")); });
  EXPECT_THROW(link_or_copy(folder_.string(), file("best.h5")), RunError);
  EXPECT_EQ(bytes_of(file("best.h5")), "old");

  put_bytes(file("epoch-0001.h5"), "new");
  std::filesystem::create_directory(file("folder"));
  EXPECT_THROW(link_or_copy(file("epoch-0001.h5"), file("folder")), RunError);
  EXPECT_THROW(link_or_copy(file("epoch-0001.h5"), file("best.h5/below")), RunError);
  EXPECT_EQ(names().size(), 3u);
}

}  // namespace
}  // namespace vaecf::io
