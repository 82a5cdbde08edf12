#pragma once

#include <vaecf/base/aligned_array.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/device/device.hpp>
#include <vaecf/device/gram_input.hpp>
#include <vaecf/device/spd_inverse.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace vaecf::models {

/// The inverse P of a matrix (items, items), in the memory in which it was inverted or gathered.
struct Inverse {
  std::int64_t items = 0;
  std::unique_ptr<device::SpdInverse> solved;  ///< this rank's rows, all of them if there is one rank
  AlignedArray<float> gathered;                ///< (items, items); empty if there is one rank

  /// Moves the rows of all ranks to `gathered`. Collective.
  void gather(comm::Communicator& ranks);
  std::span<const float> row(std::int64_t i) const;
};

/// Adds X' diag(w) X without its diagonal to `matrix` and inverts it on GPUs; see device::Solver::invert().
/// Returns nullopt on all ranks, with the matrix unchanged, unless every rank has a GPU with enough memory.
/// Collective.
std::optional<device::Inversion> invert_on_gpus(device::Device& device, device::SpdInverse& matrix,
                                                const device::GramInput& x, comm::Communicator& ranks,
                                                const device::SpdInverse::Progress& progress);

}  // namespace vaecf::models
