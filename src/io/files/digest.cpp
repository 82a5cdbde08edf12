#include <vaecf/io/digest.hpp>

#include <xxhash.h>

namespace vaecf::io {

std::uint64_t xxh64(std::string_view bytes, std::uint64_t seed) {
  return XXH64(bytes.data(), bytes.size(), seed);
}

}  // namespace vaecf::io
