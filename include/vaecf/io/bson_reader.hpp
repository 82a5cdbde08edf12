#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace vaecf::io {

/// Documents of BSON back to back, as `mongodump` and the Pinterest boards have them.
class BsonReader {
 public:
  /// Where the bytes come from: how many were put into `to`, 0 at the end.
  using Read = std::function<std::size_t(std::span<char> to)>;

  /// `name` is for messages.
  BsonReader(std::string name, Read read);
  ~BsonReader();
  BsonReader(const BsonReader&) = delete;
  BsonReader& operator=(const BsonReader&) = delete;

  /// Moves on to the next document; false at the end. InputError (with the offset) for one that is torn or
  /// damaged, and what `read` throws.
  bool next();
  /// The value of `key` as text, false where there is none or it is no id: strings as they are, integers and
  /// whole numbers in decimal, object ids in hexadecimal.
  bool text(const char* key, std::string& value) const;
  /// Calls use(element) for those of the array `key` that are ids; the number of those that are not, -1
  /// where there is no such array.
  std::int64_t for_each_text(const char* key, const std::function<void(std::string_view)>& use) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vaecf::io
