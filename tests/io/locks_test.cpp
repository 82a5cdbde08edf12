#include <gtest/gtest.h>
#include <vaecf/io/locks.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <fstream>

#include "support/temporary_folder.hpp"

namespace vaecf::io {
namespace {

TEST(FileLocks, WorkOnFilesThereAndToCome) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() / "data.h5";
  EXPECT_EQ(probe_locks(path), Locks::work);
  EXPECT_FALSE(std::filesystem::exists(path));
  std::ofstream(path) << "something";
  EXPECT_EQ(probe_locks(path), Locks::work);
  EXPECT_EQ(probe_locks(folder.path() / "none" / "data.h5"), Locks::unknown);
}

TEST(FileLocks, SeeAWriter) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() / "data.h5";
  std::ofstream(path) << "something";
  const int writer = ::open(path.c_str(), O_RDWR);
  ASSERT_EQ(::flock(writer, LOCK_EX), 0);
  EXPECT_EQ(probe_locks(path), Locks::held);
  ::close(writer);
  EXPECT_EQ(probe_locks(path), Locks::work);
}

}  // namespace
}  // namespace vaecf::io
