#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace vaecf::io {

/// Reads a sequence of BSON documents, the format of `mongodump` and of the Pinterest boards.
class BsonReader {
 public:
  /// Reads the next bytes into `to`. Returns their number, 0 at the end.
  using Read = std::function<std::size_t(std::span<char> to)>;

  /// `name` is used in messages.
  BsonReader(std::string name, Read read);
  ~BsonReader();
  BsonReader(const BsonReader&) = delete;
  BsonReader& operator=(const BsonReader&) = delete;

  /// Advances to the next document; returns false at the end. Throws InputError with the byte offset if a
  /// document is damaged or truncated, and rethrows exceptions of `read`.
  bool next();
  /// Stores the value of `key` in `value` as a string. Returns false if there is no such key or the value is
  /// not an id. Integers and integral doubles become decimal strings, object ids hexadecimal strings.
  bool text(const char* key, std::string& value) const;
  /// Calls use(element) for each element of the array `key` that is an id. Returns the number of other
  /// elements, or -1 if there is no such array.
  std::int64_t for_each_text(const char* key, const std::function<void(std::string_view)>& use) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vaecf::io
