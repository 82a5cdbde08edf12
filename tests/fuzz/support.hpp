#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/base/views.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "support/temporary_folder.hpp"

namespace vaecf::fuzz {

/// Tries one input. Every target defines it; files are made in `folder`.
void run(std::span<const std::uint8_t> bytes, const std::filesystem::path& folder);

/// Ends the process with a message if `holds` is false.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

/// Runs `work`. Returns whether it rejected its input, which requires a non-trivial message.
template <class Work>
bool refused(Work&& work) {
  try {
    work();
    return false;
  } catch (const InputError& error) {
    require(std::string_view(error.what()).size() > 10, "an error has a message");
    return true;
  }
}

/// Requires the columns of a row to be ascending, unique and in [0, width).
inline void require_sound(std::span<const std::int32_t> row, std::int64_t width) {
  require(std::is_sorted(row.begin(), row.end(), std::less_equal<>()), "columns are ascending and unique");
  require(row.empty() || (row.front() >= 0 && row.back() < width), "columns are in range");
}
inline void require_sound(const Csr& rows, std::int64_t count, std::int64_t width) {
  require(rows.rows() == count, "the number of rows is correct");
  require(rows.values.empty() || rows.values.size() == rows.columns.size(), "each item has a value, or none");
  for (std::int64_t row = 0; row < count; ++row) require_sound(rows.view().row(row), width);
}

inline std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline void write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}
inline std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Turns the bytes of a fuzzer into a sequence of choices. When the bytes are used up, every choice is the
/// first one. Equal bytes give equal choices in every build, so that a corpus remains useful.
class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes) : left_(bytes) {}

  template <class T>
  T any() {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_same_v<T, bool>);
    std::array<std::uint8_t, sizeof(T)> raw{};
    const auto taken = take(raw.size());
    std::ranges::copy(taken, raw.begin());
    T value;
    std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }

  bool coin() { return any<std::uint8_t>() % 2 == 1; }

  /// Returns an integer in [min_value, max_value].
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
    return std::string(text_of(take(wanted)));
  }

 private:
  std::span<const std::uint8_t> take(std::size_t wanted) {
    const auto taken = left_.first(std::min(wanted, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }

  std::span<const std::uint8_t> left_;
};

}  // namespace vaecf::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const vaecf::testing::TemporaryFolder folder;
  vaecf::fuzz::run({data, size}, folder.path());
  return 0;
}
