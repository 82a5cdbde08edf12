#include "io/checkpoint_seal.hpp"

#include "io/file_system.hpp"
#include "io/hdf5_reader.hpp"

#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/descriptor.hpp>

#include <fcntl.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <system_error>

namespace vaecf::io {
namespace {

static_assert(std::endian::native == std::endian::little, "the user block is written as it lies in memory");

constexpr std::string_view magic = "VAECFCKP";
constexpr std::uint32_t seal_version = 1;

struct Seal {
  std::uint32_t version = seal_version;
  std::uint32_t zero = 0;
  std::uint64_t length = 0;
  std::uint64_t hash = 0;
};
static_assert(sizeof(Seal) == 24);

Descriptor open_file(const std::string& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

/// Length and hash of all bytes behind the block; false with errno set where reading fails.
bool measure(int descriptor, Seal& seal) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  if (!state) throw std::bad_alloc();
  XXH3_64bits_reset(state.get());
  constexpr std::size_t piece_bytes = std::size_t{1} << 20;
  const auto piece = std::make_unique_for_overwrite<char[]>(piece_bytes);
  seal.length = 0;
  for (;;) {
    const ssize_t got =
        read_at(descriptor, piece.get(), piece_bytes, static_cast<off_t>(seal_bytes + seal.length));
    if (got < 0) return false;
    if (got == 0) break;
    XXH3_64bits_update(state.get(), piece.get(), static_cast<std::size_t>(got));
    seal.length += static_cast<std::uint64_t>(got);
  }
  seal.hash = XXH3_64bits_digest(state.get());
  return true;
}

}  // namespace

SealBlock make_seal(int descriptor, const std::string& path) {
  Seal seal;
  if (!measure(descriptor, seal)) throw_write_error(path, errno);
  SealBlock block{};
  std::ranges::copy(magic, block.begin());
  std::memcpy(block.data() + magic.size(), &seal, sizeof seal);
  return block;
}

std::uint64_t verify_seal(const std::string& path) {
  require_file(path, how_to_get_a_checkpoint);
  const auto fail = [&](const std::string& problem) { throw InputError(format("{}: {}", path, problem)); };
  const Descriptor file = open_file(path);
  SealBlock block{};
  const ssize_t got = !file.is_open() ? -1 : read_at(file.value(), block.data(), block.size(), 0);
  if (got < 0) fail(format("cannot be read: {}", std::generic_category().message(errno)));
  if (!std::equal(magic.begin(), magic.end(), block.begin())) {
    fail(format("is not a checkpoint of this program; {}", how_to_get_a_checkpoint));
  }
  if (static_cast<std::size_t>(got) < block.size()) fail("was cut short; use an older checkpoint");

  Seal claimed;
  std::memcpy(&claimed, block.data() + magic.size(), sizeof claimed);
  if (claimed.version != seal_version) {
    fail(format("is a checkpoint of format {}; this program reads format {}", claimed.version, seal_version));
  }
  const bool padding_is_zero =
      std::all_of(block.begin() + magic.size() + sizeof claimed, block.end(), [](char c) { return c == 0; });
  if (claimed.zero != 0 || !padding_is_zero)
    fail("is damaged in its first 512 bytes; use an older checkpoint");
  Seal found;
  if (!measure(file.value(), found)) {
    fail(format("cannot be read: {}", std::generic_category().message(errno)));
  }
  if (found.length != claimed.length) {
    fail(format("holds {} bytes behind its first 512, but {} were written; use an older checkpoint",
                found.length, claimed.length));
  }
  if (found.hash != claimed.hash) {
    fail("is damaged: its checksum does not match its bytes; use an older checkpoint");
  }
  return found.hash;
}

bool is_checkpoint(const std::string& path) {
  const Descriptor file = open_file(path);
  std::array<char, magic.size()> start{};
  return file.is_open() && read_at(file.value(), start.data(), start.size(), 0) == magic.size() &&
         std::equal(magic.begin(), magic.end(), start.begin());
}

}  // namespace vaecf::io
