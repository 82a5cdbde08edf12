#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace vaecf::cpu {

/// Memory to be brought nearer in even pieces.
class MemoryAhead {
 public:
  struct Piece {
    const char* from = nullptr;
    std::int64_t bytes = 0;
  };

  void add(const void* from, std::int64_t bytes) {
    left_[count_++] = {static_cast<const char*>(from), bytes};
    bytes_ += bytes;
  }
  /// The first of `parts` pieces of what is left, or of that much of it as lies together.
  Piece next(std::int64_t parts) {
    if (at_ == count_) return {};
    Piece& left = left_[at_];
    const Piece piece{left.from, std::min(left.bytes, bytes_ / parts + 1)};
    left.from += piece.bytes;
    left.bytes -= piece.bytes;
    bytes_ -= piece.bytes;
    if (left.bytes == 0) ++at_;
    return piece;
  }

 private:
  std::array<Piece, 6> left_;
  std::size_t count_ = 0;
  std::size_t at_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace vaecf::cpu
