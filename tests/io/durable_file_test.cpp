#include <vaecf/base/format.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/checkpoint.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "io/io_fixture.hpp"

// A file survives a power failure if its bytes are on disk before the rename, and the rename is as well. The
// linker (--wrap) replaces the two calls by those below, which record each call with its file.
namespace {

std::vector<std::string> calls;

}  // namespace

extern "C" {
decltype(fsync) __real_fsync;
decltype(rename) __real_rename;

int __wrap_fsync(int descriptor) {
  struct stat status {};
  EXPECT_EQ(::fstat(descriptor, &status), 0);
  const std::filesystem::path path =
      std::filesystem::read_symlink(vaecf::format("/proc/self/fd/{}", descriptor));
  calls.push_back(S_ISDIR(status.st_mode) ? "fsync " + path.filename().string()
                                          : vaecf::format("fsync {} bytes", status.st_size));
  return __real_fsync(descriptor);
}

int __wrap_rename(const char* from, const char* to) noexcept {
  calls.push_back("rename to " + std::filesystem::path(to).filename().string());
  return __real_rename(from, to);
}
}

namespace vaecf::io {
namespace {

/// Returns the recorded calls since the last one.
std::vector<std::string> recorded() {
  return std::exchange(calls, {});
}

class DurableFile : public IoTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(file("folder"));
    recorded();
  }
};

TEST_F(DurableFile, BytesAreSynchronizedBeforeTheRenameAndTheFolderAfterIt) {
  write_file_atomically(file("folder/a"), "12345");
  EXPECT_EQ(recorded(), (std::vector<std::string>{"fsync 5 bytes", "rename to a", "fsync folder"}));
}

TEST_F(DurableFile, CheckpointIsCompleteBeforeItIsSynchronized) {
  write_checkpoint(file("folder/c.h5"), {{"step", std::int64_t{5}}}, {});
  const std::string complete = format("fsync {} bytes", std::filesystem::file_size(file("folder/c.h5")));
  EXPECT_EQ(recorded(), (std::vector<std::string>{complete, "rename to c.h5", "fsync folder"}));
  link_or_copy(file("folder/c.h5"), file("folder/best.h5"));
  EXPECT_EQ(recorded(), (std::vector<std::string>{"rename to best.h5", "fsync folder"}));
}

}  // namespace
}  // namespace vaecf::io
