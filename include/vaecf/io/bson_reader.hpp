#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace vaecf::io {

/// Reads a sequence of BSON documents, the format of `mongodump` and of the Pinterest boards. An id is a
/// value that is a string, an integer, an integral double up to 2^53, or an ObjectId. As text, numbers are
/// decimal and ObjectIds hexadecimal.
class BsonReader {
 public:
  /// Function that reads up to to.size() bytes into `to` and returns their number, 0 at the end.
  using Read = std::function<std::size_t(std::span<char> to)>;

  /// Messages name the source `name`. `read` is called by next() only.
  BsonReader(std::string name, Read read);
  ~BsonReader();
  BsonReader(const BsonReader&) = delete;
  BsonReader& operator=(const BsonReader&) = delete;

  /// Advances to the next document; returns false at the end. Throws InputError with the byte offset if a
  /// document is damaged or truncated, and rethrows exceptions of `read`.
  bool next();
  /// Stores the id at `key` of the current document in `value` as text. Returns false, and leaves `value`
  /// unchanged, if there is no such key or its value is not an id. next() must have returned true.
  bool id(const char* key, std::string& value) const;
  /// Calls use(id) for each id in the array at `key`, in order. Returns the number of other elements, or -1
  /// if there is no such array. next() must have returned true.
  std::int64_t for_each_id(const char* key, const std::function<void(std::string_view)>& use) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vaecf::io
