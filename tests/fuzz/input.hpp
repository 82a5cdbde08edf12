#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

namespace vaecf::fuzz {

/// Turns the bytes of a fuzzer into a sequence of choices. When the bytes are used up, every choice is the
/// first one. Equal bytes give equal choices in every build, so that a corpus remains useful.
class Input {
 public:
  Input(const std::uint8_t* bytes, std::size_t size) : left_(bytes, size) {}

  template <class T>
  T any() {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_same_v<T, bool>);
    std::array<std::uint8_t, sizeof(T)> raw{};
    const auto taken = left_.first(std::min(raw.size(), left_.size()));
    std::ranges::copy(taken, raw.begin());
    left_ = left_.subspan(taken.size());
    T value;
    std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }

  bool coin() { return any<std::uint8_t>() % 2 == 1; }

  /// Returns an integer in [least, most].
  template <class T>
  T number(T min_value, T max_value) {
    const auto range = static_cast<std::uint64_t>(max_value) - static_cast<std::uint64_t>(min_value);
    const std::uint64_t raw = range < 256 ? any<std::uint8_t>() : any<std::uint64_t>();
    const std::uint64_t offset = range == ~std::uint64_t{0} ? raw : raw % (range + 1);
    return static_cast<T>(static_cast<std::uint64_t>(min_value) + offset);
  }

  template <class T, std::size_t n>
  T pick(const T (&choices)[n]) {
    return choices[number<std::size_t>(0, n - 1)];
  }

  std::string text(std::size_t max_value) {
    const auto wanted = number<std::size_t>(0, max_value);  // consumes part of the remaining bytes
    std::string text(std::min(wanted, left_.size()), '\0');
    std::ranges::copy(left_.first(text.size()), text.begin());
    left_ = left_.subspan(text.size());
    return text;
  }

 private:
  std::span<const std::uint8_t> left_;
};

}  // namespace vaecf::fuzz
