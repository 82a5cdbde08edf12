#pragma once

#include <vaecf/base/error.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace vaecf::data {

/// Assigns indices 0, 1, ... to distinct ids in order of first appearance: a hash table with open addressing
/// over a list. `Id` (int64 or string) is the stored type, `Key` the lookup type.
template <class Id, class Key>
class IdTable {
 public:
  /// Returns the index of `key`, which is added if it is new. Throws InputError beyond 2^31 - 1 ids.
  std::int32_t find_or_add(Key key) {
    if (2 * (ids_.size() + 1) > slots_.size()) grow();
    std::size_t slot = hash(key) & (slots_.size() - 1);
    while (slots_[slot] >= 0) {
      if (ids_[slots_[slot]] == key) return slots_[slot];
      slot = (slot + 1) & (slots_.size() - 1);
    }
    if (ids_.size() >= max_ids)
      throw InputError("more than 2^31 - 1 different users or items; split the source");
    slots_[slot] = static_cast<std::int32_t>(ids_.size());
    ids_.emplace_back(key);
    return slots_[slot];
  }

  /// Returns the index of `key`, -1 if it was never added.
  std::int32_t find(Key key) const {
    if (slots_.empty()) return -1;
    std::size_t slot = hash(key) & (slots_.size() - 1);
    while (slots_[slot] >= 0 && ids_[slots_[slot]] != key) slot = (slot + 1) & (slots_.size() - 1);
    return slots_[slot];
  }

  std::size_t size() const { return ids_.size(); }
  /// Returns the ids in the order of their indices.
  const std::vector<Id>& ids() const { return ids_; }
  /// Moves the ids out, in the order of their indices.
  std::vector<Id> take() { return std::exchange(ids_, {}); }

 private:
  static constexpr std::size_t max_ids = std::numeric_limits<std::int32_t>::max();

  static std::size_t hash(std::int64_t key) {
    auto bits = static_cast<std::uint64_t>(key);  // finalizer of SplitMix64
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9U;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBU;
    return bits ^ (bits >> 31);
  }
  static std::size_t hash(std::string_view key) { return std::hash<std::string_view>{}(key); }

  void grow() {
    slots_.assign(slots_.empty() ? 1024 : 2 * slots_.size(), -1);
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      std::size_t slot = hash(ids_[i]) & (slots_.size() - 1);
      while (slots_[slot] >= 0) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = static_cast<std::int32_t>(i);
    }
  }

  std::vector<Id> ids_;
  // Index into ids_, or -1. The size is a power of two, and at most half of the slots are used.
  std::vector<std::int32_t> slots_;
};

}  // namespace vaecf::data
