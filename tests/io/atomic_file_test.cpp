#include <vaecf/base/error.hpp>
#include <vaecf/base/host.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/descriptor.hpp>
#include <vaecf/io/file_lock.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "io/files/file_system.hpp"
#include "io/io_fixture.hpp"

// A file survives a power failure if its bytes are on disk before the rename, and the rename is as well. The
// linker (--wrap) replaces the two calls by those below, which record each call with its file.
namespace {

std::vector<std::string> disk_calls;

}  // namespace

extern "C" {
decltype(fsync) __real_fsync;
decltype(rename) __real_rename;

int __wrap_fsync(int descriptor) {
  struct stat status {};
  EXPECT_EQ(::fstat(descriptor, &status), 0);
  const std::filesystem::path path =
      std::filesystem::read_symlink(vaecf::format("/proc/self/fd/{}", descriptor));
  disk_calls.push_back(S_ISDIR(status.st_mode) ? "fsync " + path.filename().string()
                                               : vaecf::format("fsync {} bytes", status.st_size));
  return __real_fsync(descriptor);
}

int __wrap_rename(const char* from, const char* to) noexcept {
  disk_calls.push_back("rename to " + std::filesystem::path(to).filename().string());
  return __real_rename(from, to);
}
}

namespace vaecf::io {
namespace {

class OutputFileTest : public IoTest {
 protected:
  std::vector<std::string> temporaries() const {
    auto found = names();
    std::erase_if(found, [](const std::string& name) { return name.find(".tmp-") == std::string::npos; });
    return found;
  }
};

TEST_F(OutputFileTest, BytesAreSynchronizedBeforeTheRenameAndTheFolderAfterIt) {
  std::filesystem::create_directory(file("folder"));
  const auto expect = [&](const std::vector<std::string>& calls, auto write) {
    disk_calls.clear();
    write();
    EXPECT_EQ(disk_calls, calls);
  };
  expect({"fsync 5 bytes", "rename to a", "fsync folder"},
         [&] { write_file_atomically(file("folder/a"), "12345"); });
  write_checkpoint(file("folder/c.h5"), {{"step", std::int64_t{5}}}, {});
  const auto complete = std::filesystem::file_size(file("folder/c.h5"));
  expect({format("fsync {} bytes", complete), "rename to c.h5", "fsync folder"}, [&] {
    write_checkpoint(file("folder/c.h5"), {{"step", std::int64_t{5}}}, {});
  });
  expect({"rename to best.h5", "fsync folder"},
         [&] { link_or_copy(file("folder/c.h5"), file("folder/best.h5")); });
}

TEST_F(OutputFileTest, CreatesAndReplacesFiles) {
  write_file_atomically(file("a/b/c"), "first");
  EXPECT_EQ(bytes_of(file("a/b/c")), "first");
  write_file_atomically(file("a/b/c"), "second");
  EXPECT_EQ(bytes_of(file("a/b/c")), "second");
  put_bytes(temporary_path(file("d")),
            "left by a process of the same number, in a container that was restarted");
  put_bytes(temporary_path(file("others")), "left, too");
  write_file_atomically(file("d"), "");
  EXPECT_EQ(temporaries().size(), 1u) << "that of another file";
  {
    AtomicOutputFile abandoned(file("d"));
    abandoned.write("new");
    EXPECT_EQ(temporaries().size(), 2u);
  }
  EXPECT_EQ(bytes_of(file("d")), "");
  EXPECT_EQ(names().size(), 3U);
}

// As root, a rename would replace /dev/null for the whole machine.
TEST_F(OutputFileTest, RejectsDevicesAndPipes) {
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", file("link"));
  std::filesystem::create_symlink("/proc/self/fd/1", file("stdout"));
  for (const char* name : {"pipe", "link", "stdout"}) {
    expect_refused<RunError>({file(name) + ": is a device or a pipe"},
                             [&] { write_file_atomically(file(name), "bytes"); });
  }
  EXPECT_TRUE(std::filesystem::is_fifo(file("pipe")));
  EXPECT_TRUE(std::filesystem::is_symlink(file("link")) && std::filesystem::is_symlink(file("stdout")));
  EXPECT_EQ(names().size(), 3U) << "no temporary is left";
}

// For example, a dataset on a larger disk.
TEST_F(OutputFileTest, ReplacesTheTargetOfALinkAndKeepsTheLink) {
  write_file_atomically(file("disk/old"), "old");
  std::filesystem::create_symlink("disk/old", file("link"));
  std::filesystem::create_symlink(file("link"), file("link_to_link"));
  std::filesystem::create_symlink("disk/new/file", file("to_nothing_yet"));
  std::filesystem::create_symlink("loop", file("loop"));
  write_file_atomically(file("link_to_link"), "replaced");
  write_file_atomically(file("to_nothing_yet"), "made");
  EXPECT_EQ(bytes_of(file("disk/old")), "replaced");
  EXPECT_EQ(bytes_of(file("disk/new/file")), "made");
  EXPECT_THROW(write_file_atomically(file("loop"), "bytes"), RunError);
  for (const char* link : {"link", "link_to_link", "to_nothing_yet", "loop"})
    EXPECT_TRUE(std::filesystem::is_symlink(file(link))) << link;
}

// In a folder that other users may write to, a link can lead to any file of this user.
TEST_F(OutputFileTest, LinkUnderTheNameOfATemporaryFileIsNotFollowed) {
  EXPECT_NE(temporary_path("c"), temporary_path("c")) << "the name could be predicted";
  put_bytes(file("mine"), "mine");
  std::filesystem::create_symlink(file("mine"), file("link"));
  std::filesystem::create_symlink(file("new"), file("dangling"));
  for (const int flags : {0, O_EXCL, O_APPEND}) {
    for (const char* name : {"link", "dangling"}) {
      EXPECT_FALSE(open_for_writing(file(name), flags).is_open()) << name;
      EXPECT_EQ(errno, flags == O_EXCL ? EEXIST : ELOOP) << name;
    }
  }
  EXPECT_FALSE(open_for_writing(file("mine"), O_EXCL).is_open()) << "only new files hold temporary data";
  EXPECT_EQ(bytes_of(file("mine")), "mine");
  EXPECT_EQ(names().size(), 3U);
}

/// Starts a child process that writes files endlessly, and kills it at a random time.
template <class Name>
void kill_a_writer(std::mt19937& random, Name&& name, pid_t& child) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  child = ::fork();
  if (child == 0) {
    const std::string piece(70000, 'x');
    for (int i = 0;; ++i) {
      AtomicOutputFile output(name(i));
      for (int part = 0; part < 20; ++part) output.write(piece);
      output.commit();
      if (i == 0 && ::write(ready[1], "r", 1) != 1) ::_exit(1);
    }
  }
  ::close(ready[1]);
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1) << "the child failed before its first file";
  ::close(ready[0]);
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the child was not killed by a signal";
}

TEST_F(OutputFileTest, KilledWritersLeaveOnlyCompleteFiles) {
  std::mt19937 random(1);
  int in_the_middle = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const bool one = trial % 2 == 0;
    pid_t child = 0;
    const auto name = [&](int i) { return file(one ? "one" : format("f-{}-{}", trial, i)); };
    ASSERT_NO_FATAL_FAILURE(kill_a_writer(random, name, child));
    in_the_middle += temporaries().empty() ? 0 : 1;
    if (one) AtomicOutputFile next(file("one"));  // removes temporary files of this name
    if (!one) remove_stale_temporaries(folder_.string());
    EXPECT_TRUE(temporaries().empty());
    for (const auto& found : names()) EXPECT_EQ(std::filesystem::file_size(file(found)), 1400000u) << found;
    for (const auto& found : names()) std::filesystem::remove(file(found));
  }
  EXPECT_GT(in_the_middle, 0) << "no child was killed in the middle of a write";
}

/// Returns the id of a process that has ended.
pid_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

TEST_F(OutputFileTest, RemovesOnlyStaleTemporaries) {
  const std::string host = format(".tmp-{}-", host_name());
  const std::string dead = format("{}-0123abcd", dead_process());
  const std::string gone = "a.h5" + host + dead;
  const std::vector<std::string> left = {"best.h5",
                                         "b.h5" + host + format("{}-0123abcd", ::getppid()),
                                         "c.h5.tmp-other-host-" + dead,
                                         "d.h5.tmp-" + dead,
                                         "e.tmp-",
                                         host + dead,
                                         "f.tmp-x",
                                         "g.tmp-" + dead + "x",
                                         "h" + host + "0-0123abcd",
                                         "i" + host + "-99999999999999-0123abcd"};
  for (const auto& name : left) put_bytes(file(name), "x");
  put_bytes(file(gone), "x");
  std::filesystem::create_directory(file("j" + host + dead));
  std::filesystem::create_symlink(file("best.h5"), file("k" + host + dead));

  remove_stale_temporaries(folder_.string());
  EXPECT_FALSE(std::filesystem::exists(file(gone)));
  EXPECT_EQ(names().size(), left.size() + 2);

  // Files of other hosts are removed once they are old enough, and only those with the given prefix.
  const auto two_hours_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(2);
  for (const auto& name : left) std::filesystem::last_write_time(file(name), two_hours_ago);
  put_bytes(file(gone), "x");
  remove_stale_temporaries(folder_.string(), "c.");
  EXPECT_TRUE(std::filesystem::exists(file(gone)));
  for (std::size_t i = 0; i < left.size(); ++i)
    EXPECT_EQ(std::filesystem::exists(file(left[i])), i != 2) << left[i];
  remove_stale_temporaries(file("missing"));
}

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
