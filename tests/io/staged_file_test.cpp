#include "io/staged_file.hpp"

#include <vaecf/io/checkpoint_folder.hpp>

#include "io/bad_disk.hpp"
#include "io/io_fixture.hpp"
#include "io/temporaries.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

namespace vaecf::io {
namespace {

using Staging = StagedFile::Staging;

#ifdef __SANITIZE_ADDRESS__
constexpr int kills = 20;  // each of these children takes long to start
#else
constexpr int kills = 60;
#endif

constexpr Staging unnamed = StagedFile::Staging::unnamed_where_possible;
constexpr Staging named = StagedFile::Staging::named;

void put(int descriptor, const std::string& bytes) {
  ASSERT_EQ(::write(descriptor, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
}

void write_whole(const std::string& path, const std::string& bytes, Staging staging) {
  StagedFile staged(path, staging);
  put(staged.descriptor(), bytes);
  staged.publish();
}

class StagedFileTest : public IoTest, public ::testing::WithParamInterface<Staging> {
 protected:
  std::vector<std::string> temporaries() const {
    auto found = names();
    std::erase_if(found, [](const std::string& name) { return name.find(".tmp-") == std::string::npos; });
    return found;
  }
};

INSTANTIATE_TEST_SUITE_P(Both, StagedFileTest, ::testing::Values(unnamed, named), [](const auto& which) {
  return std::string(which.param == unnamed ? "Unnamed" : "Named");
});

TEST_P(StagedFileTest, MakesAndReplaces) {
  write_whole(file("a/b/c"), "first", GetParam());
  EXPECT_EQ(bytes_of(file("a/b/c")), "first");
  write_whole(file("a/b/c"), "second", GetParam());
  EXPECT_EQ(bytes_of(file("a/b/c")), "second");
  write_whole(file("a/b/d"), "", GetParam());
  EXPECT_EQ(bytes_of(file("a/b/d")), "");
  const auto entries = std::filesystem::directory_iterator(folder_ / "a/b");
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 2);
}

TEST_P(StagedFileTest, AbandonedLeavesNothing) {
  write_whole(file("c"), "old", GetParam());
  {
    StagedFile staged(file("c"), GetParam());
    put(staged.descriptor(), "new");
    EXPECT_EQ(bytes_of(file("c")), "old");
    EXPECT_EQ(temporaries().size(), GetParam() == named ? 1u : 0u);
  }
  EXPECT_EQ(bytes_of(file("c")), "old");
  EXPECT_EQ(names(), std::vector<std::string>{"c"});
}

// As root, who may, a rename would take /dev/null from the whole machine.
TEST_P(StagedFileTest, ADeviceOrAPipeIsNotReplaced) {
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", file("link"));
  std::filesystem::create_symlink("/proc/self/fd/1", file("stdout"));
  for (const char* name : {"pipe", "link", "stdout"}) {
    const std::string message = message_of<RunError>([&] { write_whole(file(name), "bytes", GetParam()); });
    EXPECT_NE(message.find(file(name) + ": is a device or a pipe"), std::string::npos) << message;
  }
  EXPECT_TRUE(std::filesystem::is_fifo(file("pipe")));
  EXPECT_TRUE(std::filesystem::is_symlink(file("link")) && std::filesystem::is_symlink(file("stdout")));
  EXPECT_EQ(names().size(), 3U) << "no temporary is left";
}

// A dataset on a larger disk, say.
TEST_P(StagedFileTest, WhatALinkLeadsToIsReplacedAndTheLinkStays) {
  write_whole(file("disk/old"), "old", GetParam());
  std::filesystem::create_symlink("disk/old", file("link"));
  std::filesystem::create_symlink(file("link"), file("link_to_link"));
  std::filesystem::create_symlink("disk/new/file", file("to_nothing_yet"));
  write_whole(file("link_to_link"), "replaced", GetParam());
  write_whole(file("to_nothing_yet"), "made", GetParam());
  EXPECT_EQ(bytes_of(file("disk/old")), "replaced");
  EXPECT_EQ(bytes_of(file("disk/new/file")), "made");
  for (const char* link : {"link", "link_to_link", "to_nothing_yet"})
    EXPECT_TRUE(std::filesystem::is_symlink(file(link))) << link;
}

TEST_P(StagedFileTest, ALinkToItselfIsAnError) {
  std::filesystem::create_symlink("loop", file("loop"));
  EXPECT_NE(message_of<RunError>([&] { write_whole(file("loop"), "bytes", GetParam()); }), "");
  EXPECT_TRUE(std::filesystem::is_symlink(file("loop")));
}

TEST_P(StagedFileTest, ALeftoverOfTheSameNameIsNoHindrance) {
  put_bytes(temporary_name(file("c")), "left by a process of the same number");
  write_whole(file("c"), "1", GetParam());
  put_bytes(temporary_name(file("c")), "left by a process of the same number");
  write_whole(file("c"), "2", GetParam());
  EXPECT_EQ(bytes_of(file("c")), "2");
}

TEST_P(StagedFileTest, AFolderThatVanishesIsAnErrorAndMadeAgain) {
  {
    StagedFile staged(file("run/c"), GetParam());
    put(staged.descriptor(), "lost");
    std::filesystem::remove_all(file("run"));
    const std::string message = message_of<RunError>([&] { staged.publish(); });
    EXPECT_NE(message.find(file("run/c") + ": cannot be written: No such file"), std::string::npos)
        << message;
  }
  EXPECT_TRUE(names().empty());
  write_whole(file("run/c"), "found", GetParam());
  EXPECT_EQ(bytes_of(file("run/c")), "found");
}

/// Starts a child that writes files for ever, and kills it at a random moment.
template <class Name>
void kill_a_writer(Staging staging, std::mt19937& random, Name&& name, pid_t& child) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  child = ::fork();
  if (child == 0) {
    const std::string piece(5000, 'x');
    for (int i = 0;; ++i) {
      StagedFile staged(name(i), staging);
      for (int part = 0; part < 20; ++part) {
        if (::write(staged.descriptor(), piece.data(), piece.size()) < 0) ::_exit(1);
      }
      staged.publish();
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
  ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
}

TEST_P(StagedFileTest, KilledWritersOfNewFilesLeaveWholeFilesOnly) {
  std::mt19937 random(1);
  int in_the_middle = 0;
  for (int trial = 0; trial < kills; ++trial) {
    pid_t child = 0;
    const auto name = [&](int i) { return file("f-" + std::to_string(trial) + "-" + std::to_string(i)); };
    ASSERT_NO_FATAL_FAILURE(kill_a_writer(GetParam(), random, name, child));
    if (GetParam() == named) {
      in_the_middle += temporaries().empty() ? 0 : 1;
      remove_stale_temporaries(folder_.string());
    }
    EXPECT_TRUE(temporaries().empty());
    for (const auto& found : names()) {
      EXPECT_EQ(std::filesystem::file_size(file(found)), 100000u) << found;
      std::filesystem::remove(file(found));
    }
  }
  if (GetParam() == named) {
    EXPECT_GT(in_the_middle, 0) << "no child was killed in the middle of a write";
  }
}

TEST_P(StagedFileTest, KilledWritersOfOneFileLeaveItWhole) {
  std::mt19937 random(2);
  for (int trial = 0; trial < kills; ++trial) {
    pid_t child = 0;
    ASSERT_NO_FATAL_FAILURE(kill_a_writer(
        GetParam(), random, [&](int) { return file("one"); }, child));
    // Between its link and its rename even an unnamed file has a second name, for a moment.
    remove_stale_temporaries(folder_.string());
    EXPECT_EQ(names(), std::vector<std::string>{"one"});
    EXPECT_EQ(std::filesystem::file_size(file("one")), 100000u);
  }
}

TEST_F(IoTest, FilesAreUnnamedWhereTheSystemCan) {
  const int probe = ::open(folder_.c_str(), O_RDWR | O_TMPFILE, 0600);
  if (probe < 0) GTEST_SKIP() << "this file system knows no files without a name";
  ::close(probe);
  const StagedFile staged(file("c"));
  EXPECT_TRUE(names().empty());
}

TEST_F(IoTest, FilesAreStagedWithoutProc) {
  const int status = in_own_mounts([&] {
    write_whole(file("c"), "old", unnamed);
    StagedFile begun(file("c"), unnamed);
    put(begun.descriptor(), "begun with /proc, published without");
    if (::mount("none", "/proc", "tmpfs", 0, "size=1m") != 0) return no_mount;
    begun.publish();
    if (bytes_of(file("c")) != "begun with /proc, published without") return 1;
    {
      StagedFile staged(file("c"), unnamed);
      if (names().size() != 2) return 2;  // a named one from the start
      put(staged.descriptor(), "without");
      staged.publish();
    }
    if (bytes_of(file("c")) != "without") return 3;
    return names() == std::vector<std::string>{"c"} ? 0 : 4;
  });
  if (status == -1) GTEST_SKIP() << "this machine does not let us mount";
  EXPECT_EQ(status, 0);
}

/// A process number that nobody has: of a child that was waited for.
pid_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

TEST_F(IoTest, StaleTemporariesAreRemovedAndOthersLeft) {
  const std::string own = temporary_name("");
  const std::string host = own.substr(0, own.rfind('-') + 1);  // ".tmp-HOST-"
  const std::string dead = std::to_string(dead_process());
  const std::string gone = "a.h5" + host + dead;
  const std::vector<std::string> left = {"best.h5",
                                         "b.h5" + own,
                                         "c.h5.tmp-other-host-" + dead,
                                         "d.h5.tmp-" + dead,
                                         "e.tmp-",
                                         host + dead,
                                         "f.tmp-x",
                                         "g.tmp-" + dead + "x",
                                         "h" + host + "0",
                                         "i" + host + "-99999999999999"};
  for (const auto& name : left) put_bytes(file(name), "x");
  put_bytes(file(gone), "x");
  std::filesystem::create_directory(file("j" + host + dead));
  std::filesystem::create_symlink(file("best.h5"), file("k" + host + dead));

  remove_stale_temporaries(folder_.string());
  EXPECT_FALSE(std::filesystem::exists(file(gone)));
  EXPECT_EQ(names().size(), left.size() + 2);

  // Of another host what is old enough, and that only under the names that are asked for; of this one what
  // nobody writes any more.
  const auto two_hours_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(2);
  for (const auto& name : left) std::filesystem::last_write_time(file(name), two_hours_ago);
  put_bytes(file(gone), "x");
  remove_stale_temporaries(folder_.string(), "b");
  EXPECT_EQ(names().size(), left.size() + 3);
  remove_stale_temporaries(folder_.string(), "c.");
  EXPECT_TRUE(std::filesystem::exists(file(gone)));
  for (std::size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(std::filesystem::exists(file(left[i])), i != 2) << left[i];
  }
  remove_stale_temporaries(folder_.string());
  EXPECT_EQ(names().size(), left.size() + 1);
  remove_stale_temporaries(file("missing"));
}

}  // namespace
}  // namespace vaecf::io
