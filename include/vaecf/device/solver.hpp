#pragma once

#include <vaecf/device/gram_input.hpp>
#include <vaecf/device/spd_inverse.hpp>

namespace vaecf::device {

/// Inverts the matrices of solved models on a device.
class Solver {
 public:
  virtual ~Solver() = default;
  /// Returns whether the memory of the device suffices for invert().
  virtual bool fits(const SpdInverse& matrix, const GramInput& x) const = 0;
  /// On entry `matrix` is diagonal (its diagonal includes that of X' diag(w) X). Adds the other elements of
  /// X' diag(w) X, and inverts it as its member function does, with this rank's rows in device memory, fp32
  /// products and pivot blocks inverted on the host. The pivot rows are broadcast through host memory. The
  /// result does not depend on the number of ranks. Collective.
  [[nodiscard]] virtual Inversion invert(SpdInverse& matrix, const GramInput& x,
                                         const SpdInverse::Broadcast& broadcast,
                                         const SpdInverse::Progress& progress) = 0;
};

}  // namespace vaecf::device
