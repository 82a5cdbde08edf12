#include <vaecf/comm/mpi.hpp>

#include <gtest/gtest.h>

#include <memory>

#include "comm/communicators.hpp"
#include "support/mpi_main.hpp"

namespace vaecf::comm {
namespace {

/// Provides one communicator with overlap to all tests, since creating one takes 0.2 s. It is destroyed
/// before MPI is finalized.
class Overlapping : public testing::Environment {
 public:
  void SetUp() override { communicator = make_mpi_communicator({.overlap = Toggle::on}); }
  void TearDown() override { communicator.reset(); }
  std::unique_ptr<Communicator> communicator;
};

Overlapping& overlapping() {
  static auto* environment = dynamic_cast<Overlapping*>(testing::AddGlobalTestEnvironment(new Overlapping));
  return *environment;
}
[[maybe_unused]] const Overlapping& registered_before_the_tests_run = overlapping();

}  // namespace

void for_each_communicator(const std::function<void(Communicator&)>& body) {
  {
    SCOPED_TRACE("without overlap");
    body(mpi_world());
  }
  SCOPED_TRACE("overlap");
  body(*overlapping().communicator);
}

}  // namespace vaecf::comm
