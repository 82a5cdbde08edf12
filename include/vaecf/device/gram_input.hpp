#pragma once

#include <vaecf/base/views.hpp>

#include <span>

namespace vaecf::device {

/// A matrix X (users, items), by users and by items, and weights w of the users; does not own its memory.
struct GramInput {
  CsrView users;                   ///< items of each user
  CsrView items;                   ///< users of each item
  std::span<const float> weights;  ///< (users)
};

}  // namespace vaecf::device
