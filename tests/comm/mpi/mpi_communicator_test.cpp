#include <vaecf/base/error.hpp>
#include <vaecf/comm/mpi.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "support/messages.hpp"
#include "support/mpi_main.hpp"

namespace vaecf::comm {
namespace {

std::vector<float> random_values(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank + 1));
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(count);
  for (float& v : values) v = uniform(random);
  return values;
}

// The ring sums block k in the order of ranks k, k+1, ..., so rounding shows which algorithm ran. The result
// differs from that of a tree with three ranks or more, and from recursive doubling with four or more.
TEST(MpiCommunicator, RingAlgorithmIsUsed) {
  Communicator& comm = mpi_world();
  if (comm.description().find("ring all-reduce") == std::string::npos) {
    GTEST_SKIP() << "the MPI library or the user chose another algorithm: " << comm.description();
  }
  const auto ranks = static_cast<std::size_t>(comm.size());
  const std::size_t block = 5000;
  std::vector<std::vector<float>> all;
  for (std::size_t r = 0; r < ranks; ++r) all.push_back(random_values(static_cast<int>(r), block * ranks));
  std::vector<float> ring(block * ranks);
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const std::size_t first = i / block;
    ring[i] = all[first][i];
    for (std::size_t k = 1; k < ranks; ++k) ring[i] += all[(first + k) % ranks][i];
  }
  auto values = all[static_cast<std::size_t>(comm.rank())];
  comm.all_reduce(std::span(values));
  EXPECT_EQ(std::memcmp(values.data(), ring.data(), ring.size() * sizeof(float)), 0);
}

TEST(MpiCommunicator, SettleEndsAllAccessToBuffers) {
  for (const Toggle overlap : {Toggle::off, Toggle::on}) {
    const auto comm = make_mpi_communicator({.overlap = overlap});
    {
      std::vector<std::vector<float>> dropped(8, std::vector<float>(1 << 18, 1.0F));
      for (auto& values : dropped) comm->all_reduce_async(std::span(values), {});
      comm->quiesce();
      for (const auto& values : dropped) EXPECT_EQ(values.back(), 1.0F);
    }
    std::vector<float> values(1 << 18, 1.0F);
    comm->wait(comm->all_reduce_async(std::span(values), {}));
    EXPECT_EQ(values.back(), static_cast<float>(comm->size()));
  }
}

TEST(MpiCommunicator, DescriptionContainsRanksAndThreadLevel) {
  const std::string text = mpi_world().description();
  const int ranks = mpi_world().size();
  const std::string count = std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") + " on 1 host";
  expect_in(text, {count, "thread level"});
}

TEST(MpiCommunicator, TransportsAreThoseOfOneMessageLayer) {
  const auto comm = make_mpi_communicator();
  const std::string text = mpi_transports();
  const auto has = [&](const char* name) { return text.find(name) != std::string::npos; };
  const int layers =
      (has("TCP") || has("shared memory") ? 1 : 0) + (has("UCX") ? 1 : 0) + (has("libfabric") ? 1 : 0);
  EXPECT_EQ(layers, text.empty() ? 0 : 1) << text;
}

TEST(MpiCommunicator, LongBroadcastsAreChunked) {
  const std::size_t pieces = std::size_t{1} << 26;
  std::vector<char> values(pieces + 5, mpi_world().rank() == 0 ? 'x' : '-');
  values.front() = values[pieces] = mpi_world().rank() == 0 ? 'a' : '-';
  mpi_world().broadcast(std::span<char>(values), 0);
  EXPECT_EQ(values.front(), 'a');
  EXPECT_EQ(values[pieces - 1], 'x');
  EXPECT_EQ(std::string(values.end() - 5, values.end()), "axxxx");
}

// MPI would take the lower 32 bits, which are zero for 2^32: nothing would be done, without an error.
TEST(MpiCommunicator, CountsBeyond32BitsThrow) {
  const auto comm = make_mpi_communicator({.overlap = Toggle::on});
  constexpr std::int64_t count = std::int64_t{1} << 32;
  const auto expect_refused = [](const std::function<void()>& work) {
    expect_in(message_of<RunError>(work), {"the count of a collective must be at most 2147483647, got "});
  };
  for (const std::int64_t elements : {std::int64_t{1} << 31, count}) {
    expect_refused([&] { comm->all_reduce_raw(nullptr, elements, ElementType::byte, Reduction::sum); });
  }
  const std::byte* const nothing = nullptr;
  expect_refused([&] { comm->all_gather_bytes({nothing, std::size_t{count}}, {}); });
  for (const auto kind : {CollectiveKind::reduce_scatter_sum, CollectiveKind::all_gather}) {
    expect_refused([&] {
      comm->start({kind, ElementType::float32, nullptr, nullptr, count / std::int64_t{sizeof(float)}}, {});
    });
  }
}

TEST(MpiCommunicator, FailedCallThrowsRunErrorWithItsName) {
  std::vector<float> values(3);
  const auto beyond_the_last_rank = [&] {
    make_mpi_communicator()->broadcast(std::span(values), mpi_world().size());
  };
  expect_in(message_of<RunError>(beyond_the_last_rank), {"MPI_Bcast failed"});
}

TEST(MpiCommunicator, UnconnectedProcessesOfALauncherThrow) {
  if (mpi_world().size() != 1) GTEST_SKIP() << "needs one rank";
  const char* before = std::getenv("OMPI_COMM_WORLD_SIZE");
  const std::string kept = before == nullptr ? "" : before;
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  EXPECT_THROW(make_mpi_communicator(), InputError);
  if (before == nullptr)
    unsetenv("OMPI_COMM_WORLD_SIZE");
  else
    setenv("OMPI_COMM_WORLD_SIZE", kept.c_str(), 1);
}

}  // namespace
}  // namespace vaecf::comm
