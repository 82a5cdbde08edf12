#include <execinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <functional>
#include <random>

#include "io/io_fixture.hpp"

// A dataset has no checksum over all its bytes, and HDF5 1.10 itself crashes on some damaged files. Damaged
// files are therefore read in a child process. It must end soon, with valid rows or an error message. Crashes
// are accepted only inside libhdf5, and must be rare.
namespace vaecf::io {
namespace {

enum Outcome { read = 0, refused = 2, wrong = 3, crashed_elsewhere = 4, crashed_in_hdf5 = 5, hung = 6 };

void damage(std::string& bytes, std::mt19937& random) {
  const auto at = [&] { return random() % bytes.size(); };
  const unsigned kind = random() % 8;
  if (kind == 0) return bytes.resize(at());
  if (kind > 1) {
    bytes[at()] ^= static_cast<char>(1 << random() % 8);
    return;
  }
  const std::size_t begin = at();
  const std::size_t count = std::min<std::size_t>(bytes.size() - begin, 1 + random() % 64);
  bytes.replace(begin, count, count, random() % 2 == 0 ? '\0' : '\xFF');
}

extern "C" void on_crash(int) {
  void* frames[64];
  const int count = backtrace(frames, 64);
  char** const names = backtrace_symbols(frames, count);  // may allocate, because the process ends here
  const bool in_library = names != nullptr && std::any_of(names, names + count, [](std::string_view name) {
                            return name.find("libhdf5") != name.npos;
                          });
  _exit(in_library ? crashed_in_hdf5 : crashed_elsewhere);
}

Outcome read_file(const std::string& path) {
  try {
    const DatasetFile file(path);
    file.fingerprint();
    for (const char* matrix : {"train", "validation/fold_in", "validation/held_out"}) {
      const Csr rows = file.read_rows(matrix, {0, file.rows(matrix)});
      for (std::int64_t row = 0; row < rows.rows(); ++row) {
        const auto columns = rows.view().row(row);
        if (!std::ranges::is_sorted(columns, std::less_equal())) return wrong;
        if (!columns.empty() && (columns.front() < 0 || columns.back() >= file.items())) return wrong;
      }
    }
    if (file.has_ids("items/id")) file.read_ids("items/id");
    return read;
  } catch (const InputError& error) {
    return std::string(error.what()).find(path) != std::string::npos ? refused : wrong;
  }
}

Outcome read_in_child(const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int crash : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE}) std::signal(crash, on_crash);
    std::signal(SIGALRM, SIG_DFL);
    alarm(20);
    _exit(read_file(path));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? static_cast<Outcome>(WEXITSTATUS(status)) : hung;
}

TEST_F(IoTest, DamagedDatasetsGiveAnErrorOrValidRows) {
  const std::string whole = file("whole.h5");
  write_small_dataset(whole);
  ASSERT_EQ(read_in_child(whole), read);
  const std::string good = bytes_of(whole);
  const std::string damaged = file("damaged.h5");

  constexpr int trials = 300;
  int counts[7] = {};
  for (int trial = 0; trial < trials; ++trial) {
    std::mt19937 random(static_cast<unsigned>(trial));
    std::string bytes = good;
    damage(bytes, random);
    put_bytes(damaged, bytes);
    const Outcome verdict = read_in_child(damaged);
    ++counts[verdict];
    EXPECT_TRUE(verdict == read || verdict == refused || verdict == crashed_in_hdf5)
        << "trial " << trial << " ended in " << verdict;
  }
  EXPECT_GT(counts[refused], trials / 20) << "hardly any damage is detected";
  EXPECT_LE(counts[crashed_in_hdf5], trials / 100);
  std::printf("of %d damaged files %d were read soundly, %d refused, %d crashed libhdf5\n", trials,
              counts[read], counts[refused], counts[crashed_in_hdf5]);
}

}  // namespace
}  // namespace vaecf::io
