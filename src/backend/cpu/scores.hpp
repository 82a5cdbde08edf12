#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "output_slice.hpp"

namespace vaecf::cpu {

class TileKernels;
struct Workspace;

/// Scores of all items for a slice of users, in panels: some items of one user. Users are counted from the
/// slice's first.
class Scores {
 public:
  /// Receives a panel: the scores of items first_item .. of `user`, with the user's own items at minus
  /// infinity.
  using Use = std::function<void(int part, std::int64_t user, std::int64_t first_item,
                                 std::span<const float> scores)>;

  virtual ~Scores() = default;
  /// The items come in this many parts. The panels of one user and part ascend and come one after the other,
  /// while other users and parts may be used by other threads.
  virtual int parts() const = 0;
  virtual void for_each_panel(const Use& use) const = 0;
  /// Returns the scores of some items of each user that are not the user's own, with the bits that they have
  /// in the panels: one per entry of `wanted`, whose rows are the slice's users.
  virtual std::vector<float> of(CsrView wanted) const = 0;
};

/// The output layer's own kernel makes scores in panels of 32 users by 256 items, 32 KiB, that do not leave
/// the nearer caches. A part per thread.
std::unique_ptr<Scores> make_tile_scores(const TileKernels& kernels, Workspace& workspace,
                                         const OutputSlice& slice);
/// Such parts are for few threads, as many as share a chip's nearer caches: with many, the lists and counters
/// of all parts would cost more than scores that pass the L3.
constexpr int most_tile_threads = 8;

}  // namespace vaecf::cpu
