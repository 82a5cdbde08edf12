#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace vaecf {

/// The values of an enumeration with their names in files and logs.
template <class E, int N>
using EnumNames = std::array<std::pair<E, const char*>, N>;

/// Returns the names of the values of E, given all of them in the order of the values, which count from 0.
template <class E, class... Names>
constexpr EnumNames<E, sizeof...(Names)> named(Names... names) {
  int value = 0;
  return {{{static_cast<E>(value++), names}...}};
}

/// Names of the values of E. Specialized as named<E>(..) for each enumeration that has names in files or
/// logs.
template <class E>
inline constexpr int enum_names = 0;

template <class E>
concept NamedEnum = std::is_enum_v<E> && !std::is_same_v<decltype(enum_names<E>), const int>;

/// Returns the name of `value`, or "unknown" if it has none.
template <NamedEnum E>
std::string to_string(E value) {
  for (const auto& [known, name] : enum_names<E>) {
    if (known == value) return name;
  }
  return "unknown";
}

/// Returns the value called `name`, or nullopt if there is none.
template <NamedEnum E>
std::optional<E> parse_enum(std::string_view name) {
  for (const auto& [value, its_name] : enum_names<E>) {
    if (its_name == name) return value;
  }
  return std::nullopt;
}

/// Returns all names, separated by commas: "auto, on, off".
template <NamedEnum E>
std::string names_of() {
  std::string all;
  for (const auto& [value, name] : enum_names<E>) all += (all.empty() ? "" : ", ") + std::string(name);
  return all;
}

/// A switch that a run sets by itself if it is automatic.
enum class Toggle { automatic, on, off };
template <>
inline constexpr auto enum_names<Toggle> = named<Toggle>("auto", "true", "false");

}  // namespace vaecf
