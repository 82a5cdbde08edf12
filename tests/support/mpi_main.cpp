// GoogleTest under mpirun: all ranks run the same tests. Rank 0 prints the report, the other ranks print only
// their failures.
#include "support/mpi_main.hpp"

#include <vaecf/comm/mpi.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>

namespace vaecf::comm {
namespace {

std::unique_ptr<Communicator>& world() {
  static std::unique_ptr<Communicator> communicator;
  return communicator;
}

/// Prints failures only, for ranks other than 0.
class FailuresOnly : public testing::EmptyTestEventListener {
 public:
  explicit FailuresOnly(int rank) : rank_(rank) {}
  void OnTestStart(const testing::TestInfo& test) override {
    // Stored because GoogleTest holds its lock during OnTestPartResult and cannot be queried then.
    test_ = std::string(test.test_suite_name()) + "." + test.name();
  }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "[rank %d] %s: %s:%d: %s\n", rank_, test_.c_str(),
                 result.file_name() != nullptr ? result.file_name() : "?", result.line_number(),
                 result.message());
  }

 private:
  int rank_;
  std::string test_;
};

}  // namespace

Communicator& mpi_world() {
  return *world();
}

int run_tests_on_ranks(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  world() = make_mpi_communicator();
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (mpi_world().rank() != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly(mpi_world().rank()));
  }
  std::int64_t failed = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    std::fprintf(stderr, "no test was run, which is a failure\n");
    failed = 1;
  }
  failed = mpi_world().all_reduce(failed, Reduction::max);
  world().reset();
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace vaecf::comm

int main(int argc, char** argv) {
  try {
    return vaecf::comm::run_tests_on_ranks(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
