#pragma once

#include <unistd.h>

#include <utility>

namespace vaecf::io {

/// Owns a file descriptor and closes it on destruction.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  int value() const { return value_; }
  bool is_open() const { return value_ >= 0; }
  void reset() {
    if (is_open()) ::close(std::exchange(value_, -1));
  }

 private:
  int value_ = -1;
};

}  // namespace vaecf::io
