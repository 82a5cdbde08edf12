#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace vaecf::io {

/// A JSON value to be written: nothing, a number, a text, a list, or an object whose fields keep their order.
class Json {
 public:
  using List = std::vector<Json>;
  using Fields = std::vector<std::pair<std::string, Json>>;
  using Value = std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, List, Fields>;

  Json() = default;
  // Not inline: GCC 12 takes a moved variant within a variant for one that was never set.
  ~Json();
  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  explicit Json(bool value) : value_(value) {}
  explicit Json(std::int64_t value) : value_(value) {}
  explicit Json(double value) : value_(value) {}
  explicit Json(std::string value) : value_(std::move(value)) {}
  explicit Json(const char* value) : value_(std::string(value)) {}
  static Json list() { return Json(Value(List())); }
  static Json object() { return Json(Value(Fields())); }

  /// On an object.
  template <class T>
  Json& set(std::string key, T&& value) {
    std::get<Fields>(value_).emplace_back(std::move(key), Json(std::forward<T>(value)));
    return *this;
  }
  /// On a list.
  template <class T>
  Json& add(T&& value) {
    std::get<List>(value_).emplace_back(std::forward<T>(value));
    return *this;
  }
  const Value& value() const { return value_; }

 private:
  explicit Json(Value value) : value_(std::move(value)) {}
  Value value_ = nullptr;
};

/// On one line, or with `indent` >= 0 on many. Numbers that are no number become null, bytes that are no
/// UTF-8 U+FFFD.
std::string to_text(const Json& json, int indent = -1);

}  // namespace vaecf::io
