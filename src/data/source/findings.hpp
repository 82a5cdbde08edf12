#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/log.hpp>
#include <vaecf/data/prepare.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vaecf::data {

/// Counts the malformed lines of a source by kind and keeps the locations of the first few.
class Findings {
 public:
  static constexpr std::size_t shown = 3;  ///< number of examples kept per kind

  explicit Findings(bool strict = false) : strict_(strict) {}

  /// Counts a dropped line (or value) of kind `what`. `where()` returns "file:line: 'text'" and is called for
  /// the first few only. In strict mode it throws InputError instead.
  template <class Where>
  void dropped(std::string_view what, Where where) {
    add(what, true, where);
  }
  /// Counts an unusual line of kind `what` that is kept; otherwise like dropped().
  template <class Where>
  void kept(std::string_view what, Where where) {
    add(what, false, where);
  }
  /// Adds `count` dropped lines of kind `what` without examples.
  void add_unseen(std::string_view what, std::int64_t count) { of(what, true).count += count; }

  std::int64_t lines_dropped() const;
  const std::vector<Finding>& list() const { return list_; }
  /// Returns the first example of the most frequent kind of dropped line, with its kind.
  std::string worst() const;
  /// Logs one warning per kind.
  void tell(Log& log) const;

 private:
  template <class Where>
  void add(std::string_view what, bool is_dropped, Where& where) {
    if (strict_) refuse(what, where());
    Finding& finding = of(what, is_dropped);
    ++finding.count;
    if (finding.examples.size() < shown) finding.examples.push_back(where());
  }
  [[noreturn]] static void refuse(std::string_view what, const std::string& where);
  Finding& of(std::string_view what, bool is_dropped);

  bool strict_;
  std::vector<Finding> list_;
};

}  // namespace vaecf::data
