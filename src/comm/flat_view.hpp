#pragma once

#include <vaecf/backend/backend.hpp>
#include <vaecf/base/views.hpp>

#include <span>

namespace vaecf::comm {

/// Elements `range` of a buffer, which may lie on a device: an address and a size, not to be read here.
template <class Buffer>
auto view(Buffer& buffer, Range range) {
  return std::span(buffer.data() + range.begin, static_cast<std::size_t>(range.size()));
}

}  // namespace vaecf::comm
