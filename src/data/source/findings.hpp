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

/// What is odd in a source, counted, with the places of the first few.
class Findings {
 public:
  static constexpr std::size_t shown = 3;  ///< examples of each kind

  explicit Findings(bool strict = false) : strict_(strict) {}

  /// One more of `what`; `where()` gives "file:line: 'text'" and is asked for the first few only. Strict: an
  /// InputError instead.
  template <class Where>
  void dropped(std::string_view what, Where where) {
    add(what, true, where);
  }
  template <class Where>
  void kept(std::string_view what, Where where) {
    add(what, false, where);
  }
  /// Many at once, none of them shown.
  void add_unseen(std::string_view what, std::int64_t count) { of(what, true).count += count; }

  std::int64_t lines_dropped() const;
  const std::vector<Finding>& list() const { return list_; }
  /// The first place of the kind of line that was dropped most often.
  std::string worst() const;
  /// A warning for each kind.
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
