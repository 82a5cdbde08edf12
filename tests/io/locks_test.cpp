#include <gtest/gtest.h>
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/locks.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

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

using std::chrono::milliseconds;

std::string refusal(const std::string& folder) {
  try {
    FolderLock(folder, milliseconds(0));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(FolderLocks, KeepOthersOutForAsLongAsTheyLive) {
  const testing::TemporaryFolder place;
  const std::string folder = place.path();
  std::ofstream(folder + "/.lock") << "left by one that was killed";
  {
    FolderLock lock(folder, milliseconds(0));
    ASSERT_TRUE(lock.held());
    const std::string said = refusal(folder);
    EXPECT_NE(said.find("another run is at work"), std::string::npos) << said;
    EXPECT_NE(said.find(format("process {} on ", ::getpid())), std::string::npos) << said;
    EXPECT_EQ(said.find("killed"), std::string::npos) << said;
    const FolderLock moved = std::move(lock);
    EXPECT_FALSE(lock.held());
    EXPECT_NE(refusal(folder), "");
  }
  EXPECT_EQ(refusal(folder), "");
  EXPECT_NE(refusal(folder + "/none").find("No such file"), std::string::npos);
}

TEST(FolderLocks, OverwriteNothingThatALinkLeadsTo) {
  const testing::TemporaryFolder place;
  const std::string folder = place.path();
  std::ofstream(folder + "/mine") << "mine";
  std::filesystem::create_symlink(folder + "/mine", folder + "/.lock");
  EXPECT_NE(refusal(folder).find(".lock: cannot be opened ("), std::string::npos) << refusal(folder);
  EXPECT_EQ(std::filesystem::file_size(folder + "/mine"), 4U);
}

TEST(FolderLocks, WaitForOneThatIsAboutToEnd) {
  const testing::TemporaryFolder place;
  auto first = std::make_unique<FolderLock>(place.path(), milliseconds(0));
  std::thread ends([&] {
    std::this_thread::sleep_for(milliseconds(200));
    first.reset();
  });
  EXPECT_TRUE(FolderLock(place.path(), milliseconds(60000)).held());
  ends.join();
}

}  // namespace
}  // namespace vaecf::io
