#pragma once

#include <vaecf/base/enum_names.hpp>

#include <string>
#include <utility>
#include <vector>

namespace vaecf::app {

/// The severity of a finding.
enum class Severity { ok, warn, fail };

/// The scope of a finding: all ranks together, a host, or a rank.
enum class Scope { all, host, rank };

/// The result of one check.
struct CheckResult {
  std::string subject;  ///< "memory", "binding", ...
  Severity severity = Severity::ok;
  std::string text;         ///< observation
  std::string advice = {};  ///< suggested fix; may be empty
  Scope scope = Scope::all;
};
using CheckResults = std::vector<CheckResult>;

/// Returns a warning with `advice` if `is_wrong`, else a finding without a problem.
inline CheckResult warn_if(bool is_wrong, std::string subject, std::string text, std::string advice) {
  if (!is_wrong) return {std::move(subject), Severity::ok, std::move(text)};
  return {std::move(subject), Severity::warn, std::move(text), std::move(advice)};
}

}  // namespace vaecf::app

namespace vaecf {

template <>
inline constexpr auto enum_names<app::Severity> = named<app::Severity>("ok", "warn", "fail");
template <>
inline constexpr auto enum_names<app::Scope> = named<app::Scope>("all", "host", "rank");

}  // namespace vaecf
