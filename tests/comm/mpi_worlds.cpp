#include "comm/worlds.hpp"
#include "support/mpi_main.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace vaecf::comm {
namespace {

/// Making a communicator takes a fifth of a second, so all tests share one; it must go before MPI ends.
class CutMessages : public testing::Environment {
 public:
  void SetUp() override {
    communicator = make_mpi_communicator({}, test_piece);
    overlapping = make_mpi_communicator({.overlap = Toggle::on}, test_piece);
  }
  void TearDown() override {
    communicator.reset();
    overlapping.reset();
  }
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Communicator> overlapping;
};

CutMessages& cut_messages() {
  static auto* environment = dynamic_cast<CutMessages*>(testing::AddGlobalTestEnvironment(new CutMessages));
  return *environment;
}
[[maybe_unused]] const CutMessages& registered_before_the_tests_run = cut_messages();

}  // namespace

void on_worlds(const std::function<void(Communicator&)>& body) {
  {
    SCOPED_TRACE("whole messages");
    body(mpi_world());
  }
  {
    SCOPED_TRACE("cut messages");
    body(*cut_messages().communicator);
  }
  SCOPED_TRACE("overlap");
  body(*cut_messages().overlapping);
}

}  // namespace vaecf::comm
