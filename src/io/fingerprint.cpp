#include "io/fingerprint.hpp"

#include <vaecf/base/format.hpp>

#include <xxhash.h>

#include <memory>
#include <new>

#include "io/matrices.hpp"

namespace vaecf::io {
namespace {

std::string text_of(const Attribute& attribute) {
  if (const auto* list = std::get_if<std::vector<double>>(&attribute)) {
    std::string text;
    for (const double number : *list) text += format("{} ", number);
    return text;
  }
  if (const auto* integer = std::get_if<std::int64_t>(&attribute)) return format("{}", *integer);
  if (const auto* number = std::get_if<double>(&attribute)) return format("{}", *number);
  return std::get<std::string>(attribute);
}

}  // namespace

std::string fingerprint_of(const Attributes& attributes, const InputFile& file, const Matrices& matrices,
                           const Contents& contents) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  if (!state) throw std::bad_alloc();
  XXH3_64bits_reset(state.get());
  const auto add_size = [&](std::uint64_t size) { XXH3_64bits_update(state.get(), &size, sizeof size); };
  const auto add = [&](std::string_view bytes) {
    add_size(bytes.size());
    XXH3_64bits_update(state.get(), bytes.data(), bytes.size());
  };
  for (std::size_t m = 0; m < matrix_names.size(); ++m) {
    if (!matrices[m] && m >= first_features) continue;  // as it was before there were any
    add(matrix_names[m]);
    if (!matrices[m]) continue;
    add_size(static_cast<std::uint64_t>(matrices[m]->rows() + 1) * sizeof(std::int64_t));
    for_each_offset_piece(file, *matrices[m], [&](std::span<const std::int64_t> piece) {
      XXH3_64bits_update(state.get(), piece.data(), piece.size_bytes());
    });
  }
  for (const auto& [name, value] : attributes) {
    add(name);
    add(text_of(value));
  }
  if (contents) {
    contents([&](std::span<const std::byte> bytes) {
      add_size(bytes.size());
      XXH3_64bits_update(state.get(), bytes.data(), bytes.size());
    });
  }
  return format("{:016x}", XXH3_64bits_digest(state.get()));
}

}  // namespace vaecf::io
