#include <vaecf/base/error.hpp>
#include <vaecf/io/source_reader.hpp>

#include <bson/bson.h>

#include <array>
#include <cmath>
#include <exception>
#include <optional>

namespace vaecf::io {
namespace {

std::optional<std::string> id_text(const bson_iter_t& at) {
  constexpr double exact = 9007199254740992.0;
  std::array<char, 25> hexadecimal{};
  switch (bson_iter_type(&at)) {
    case BSON_TYPE_UTF8: {
      std::uint32_t length = 0;
      const char* const bytes = bson_iter_utf8(&at, &length);
      return std::string(bytes, length);
    }
    case BSON_TYPE_INT32:
    case BSON_TYPE_INT64:
      return std::to_string(bson_iter_as_int64(&at));
    case BSON_TYPE_DOUBLE: {
      const double value = bson_iter_double(&at);
      if (!(std::abs(value) <= exact) || value != std::floor(value)) return std::nullopt;
      return std::to_string(static_cast<std::int64_t>(value));
    }
    case BSON_TYPE_OID:
      bson_oid_to_string(bson_iter_oid(&at), hexadecimal.data());
      return hexadecimal.data();
    default:
      return std::nullopt;
  }
}

}  // namespace

struct BsonReader::State {
  struct Destroy {
    void operator()(bson_reader_t* reader) const { bson_reader_destroy(reader); }
  };

  static ssize_t read_bytes(void* self, void* to, std::size_t size) {
    auto* const state = static_cast<State*>(self);
    try {
      const std::size_t got = state->read({static_cast<char*>(to), size});
      state->bytes += static_cast<std::int64_t>(got);
      return static_cast<ssize_t>(got);
    } catch (...) {  // exceptions must not propagate through C code
      state->problem = std::current_exception();
      return -1;
    }
  }

  std::string name;
  Read read;
  std::exception_ptr problem;
  std::unique_ptr<bson_reader_t, Destroy> reader;
  const bson_t* document = nullptr;
  std::int64_t bytes = 0;  // bytes read so far
};

BsonReader::BsonReader(std::string name, Read read) : state_(std::make_unique<State>()) {
  state_->name = std::move(name);
  state_->read = std::move(read);
  state_->reader.reset(bson_reader_new_from_handle(state_.get(), &State::read_bytes, nullptr));
}

BsonReader::~BsonReader() = default;

bool BsonReader::next() {
  State& s = *state_;
  const auto offset = static_cast<std::int64_t>(bson_reader_tell(s.reader.get()));
  bool at_end = false;
  s.document = bson_reader_read(s.reader.get(), &at_end);
  if (s.problem) std::rethrow_exception(s.problem);
  // libbson reports a truncated last document as the end.
  const bool ended = s.document == nullptr && at_end && s.bytes == offset;
  if (!ended && (s.document == nullptr || !bson_validate(s.document, BSON_VALIDATE_NONE, nullptr))) {
    throw InputError(format(
        "{}: the BSON document at byte {} is damaged or truncated; download the file again", s.name, offset));
  }
  return !ended;
}

bool BsonReader::id(const char* key, std::string& value) const {
  bson_iter_t at;
  if (!bson_iter_init_find(&at, state_->document, key)) return false;
  const auto found = id_text(at);
  if (found) value = *found;
  return found.has_value();
}

std::int64_t BsonReader::for_each_id(const char* key,
                                     const std::function<void(std::string_view)>& use) const {
  bson_iter_t at;
  bson_iter_t element;
  if (!bson_iter_init_find(&at, state_->document, key) || !BSON_ITER_HOLDS_ARRAY(&at) ||
      !bson_iter_recurse(&at, &element)) {
    return -1;
  }
  std::int64_t others = 0;
  while (bson_iter_next(&element)) {
    const auto found = id_text(element);
    if (found) use(*found);
    if (!found) ++others;
  }
  return others;
}

}  // namespace vaecf::io
