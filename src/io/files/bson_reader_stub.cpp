// Replaces bson_reader.cpp in a program built without libbson.

#include <vaecf/base/error.hpp>
#include <vaecf/io/source_reader.hpp>

namespace vaecf::io {

struct BsonReader::State {};

BsonReader::BsonReader(std::string name, Read) {
  throw InputError(format(
      "{}: is BSON, and this program was built without libbson, which reads it; build the program with libbson (docs/INSTALL.md)",
      name));
}
BsonReader::~BsonReader() = default;

// No reader ever exists.
bool BsonReader::next() {
  return false;
}
bool BsonReader::id(const char*, std::string&) const {
  return false;
}
std::int64_t BsonReader::for_each_id(const char*, const std::function<void(std::string_view)>&) const {
  return -1;
}

}  // namespace vaecf::io
