#include "models/linear/inverse.hpp"

#include <algorithm>

namespace vaecf::models {

std::optional<device::Inversion> invert_on_gpus(device::Device& device, device::SpdInverse& matrix,
                                                const device::GramInput& x, comm::Communicator& ranks,
                                                const device::SpdInverse::Progress& progress) {
  device::Solver* const solver = device.solver();
  const bool fits = solver != nullptr && solver->fits(matrix, x);
  if (ranks.all_reduce(std::int64_t{fits}, comm::Reduction::min) == 0) return std::nullopt;
  const auto broadcast = [&](std::span<float> values, int root) { ranks.broadcast(values, root); };
  return solver->invert(matrix, x, broadcast, progress);
}

void Inverse::gather(comm::Communicator& ranks) {
  gathered.resize(items * items);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const Range rows = solved->rows_of(rank);
    const std::span<float> all(gathered.data() + rows.begin * items,
                               static_cast<std::size_t>(rows.size() * items));
    if (rank == ranks.rank())
      for (std::int64_t i = rows.begin; i < rows.end; ++i)
        std::ranges::copy(solved->row(i), all.begin() + (i - rows.begin) * items);
    ranks.broadcast(all, rank);
  }
  solved.reset();
}

std::span<const float> Inverse::row(std::int64_t i) const {
  if (solved) return solved->row(i);
  return {gathered.data() + i * items, static_cast<std::size_t>(items)};
}

}  // namespace vaecf::models
