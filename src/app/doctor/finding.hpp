#pragma once

#include <vaecf/base/enum_names.hpp>

#include <string>
#include <vector>

namespace vaecf::app {

enum class Health { ok, warn, fail };

/// What a finding is about.
enum class About { all, host, rank };

/// One thing that the doctor looked at.
struct Finding {
  std::string subject;  ///< "memory", "binding", ...
  Health health = Health::ok;
  std::string text;    ///< what was found
  std::string advice;  ///< what to do about it; may be empty
  About about = About::all;
  bool operator==(const Finding&) const = default;
};
using Findings = std::vector<Finding>;

/// Returns a warning with `advice` if something `is_wrong`, else that all is well.
inline Finding warn_if(bool is_wrong, std::string subject, std::string text, std::string advice) {
  if (!is_wrong) return {std::move(subject), Health::ok, std::move(text), ""};
  return {std::move(subject), Health::warn, std::move(text), std::move(advice)};
}

}  // namespace vaecf::app

namespace vaecf {

template <>
inline constexpr EnumNames<app::Health, 3> enum_names<app::Health>{
    {{app::Health::ok, "ok"}, {app::Health::warn, "warn"}, {app::Health::fail, "fail"}}};
template <>
inline constexpr EnumNames<app::About, 3> enum_names<app::About>{
    {{app::About::all, "all"}, {app::About::host, "host"}, {app::About::rank, "rank"}}};

}  // namespace vaecf
