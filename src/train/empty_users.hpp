#pragma once

#include <vaecf/backend/backend.hpp>

#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

namespace vaecf::train {

/// Batches of users who have no item.
class EmptyUsers {
 public:
  /// Of up to `most` users.
  EmptyUsers(backend::Backend& backend, std::int64_t most, std::int64_t items)
      : backend_(backend),
        offsets_(static_cast<std::size_t>(most) + 1, 0),
        numbers_(static_cast<std::size_t>(most)),
        held_(backend.hold_rows({offsets_, {}}, 0, items)),
        batch_(backend.make_batch()) {
    std::iota(numbers_.begin(), numbers_.end(), 0);
  }

  /// Valid until the next call.
  const backend::Batch& batch(std::int64_t users) {
    backend_.gather_batch(*held_, std::span(numbers_).first(static_cast<std::size_t>(users)), false, *batch_);
    return *batch_;
  }

 private:
  backend::Backend& backend_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::int64_t> numbers_;
  std::unique_ptr<backend::UserRows> held_;
  std::unique_ptr<backend::Batch> batch_;
};

}  // namespace vaecf::train
