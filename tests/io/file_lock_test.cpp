#include <vaecf/base/format.hpp>
#include <vaecf/io/atomic_file.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "io/io_fixture.hpp"

namespace vaecf::io {
namespace {

using LocksTest = IoTest;
using std::chrono::milliseconds;

TEST_F(LocksTest, ProbeWorksForExistingAndNewFilesAndDetectsAWriter) {
  EXPECT_EQ(probe_file_lock(file("data.h5")), FileLockStatus::available);
  EXPECT_TRUE(names().empty());
  put_bytes(file("data.h5"), "something");
  EXPECT_EQ(probe_file_lock(file("data.h5")), FileLockStatus::available);
  EXPECT_EQ(probe_file_lock(file("none/data.h5")), FileLockStatus::unknown);
  const Descriptor writer(::open(file("data.h5").c_str(), O_RDWR));
  ASSERT_EQ(::flock(writer.value(), LOCK_EX), 0);
  EXPECT_EQ(probe_file_lock(file("data.h5")), FileLockStatus::held);
}

TEST_F(LocksTest, FolderLockExcludesOthersUntilDestroyed) {
  const auto lock_it = [&] { DirectoryLock(file(""), milliseconds(0)); };
  put_bytes(file(".lock"), "left by one that was killed");
  {
    DirectoryLock lock(file(""), milliseconds(0));
    ASSERT_TRUE(lock.held());
    expect_refused<InputError>({"another run is using this folder", format("(process {} on ", ::getpid())},
                               lock_it);
    const DirectoryLock moved = std::move(lock);
    EXPECT_FALSE(lock.held());
    EXPECT_THROW(lock_it(), InputError);
  }
  EXPECT_NO_THROW(lock_it());
  expect_refused<InputError>({"No such file"}, [&] { DirectoryLock(file("none"), milliseconds(0)); });
}

TEST_F(LocksTest, HolderOfTheFolderLockIsEscapedAndShortened) {
  const DirectoryLock lock(file(""), milliseconds(0));
  put_bytes(file(".lock"), "\x1b[31m" + std::string(1000, 'z') + "\n");
  const std::string message = message_of<InputError>([&] { DirectoryLock(file(""), milliseconds(0)); });
  EXPECT_NE(message.find("(\\x1b[31mzz"), std::string::npos) << message;
  EXPECT_LE(std::ranges::count(message, 'z'), 200) << message;
}

TEST_F(LocksTest, FolderLockDoesNotFollowLinks) {
  put_bytes(file("mine"), "mine");
  std::filesystem::create_symlink(file("mine"), file(".lock"));
  expect_refused<InputError>({".lock: cannot open the lock file"},
                             [&] { DirectoryLock(file(""), milliseconds(0)); });
  EXPECT_EQ(bytes_of(file("mine")), "mine");
}

TEST_F(LocksTest, FolderLockWaitsForRelease) {
  auto first = std::make_unique<DirectoryLock>(file(""), milliseconds(0));
  std::thread ends([&] {
    std::this_thread::sleep_for(milliseconds(200));
    first.reset();
  });
  EXPECT_TRUE(DirectoryLock(file(""), milliseconds(60000)).held());
  ends.join();
}

}  // namespace
}  // namespace vaecf::io
