// Fuzzes user tables and the text form of FeatureHashing. The first byte selects between them, the second the
// table format.
#include <vaecf/data/prepare.hpp>

#include "fuzz/support.hpp"

namespace vaecf::fuzz {
namespace {

void parse_hashing(std::string_view text) {
  const data::FeatureHashing hashing = data::FeatureHashing::parse(text);
  require(data::FeatureHashing::parse(hashing.to_string()) == hashing, "to_string() and parse() round-trip");
  require_sound(hashing.row(std::vector<std::string>(hashing.columns().size(), "x")), hashing.features());
}

}  // namespace

void run(std::span<const std::uint8_t> bytes, const std::filesystem::path& folder) {
  if (bytes.size() < 2) return;
  static const std::array<const char*, 4> names{"people.csv", "users.dat", "u.user", "usersha1-profile.tsv"};
  const std::string_view text = text_of(bytes.subspan(2));
  refused([&] {
    if (bytes[0] % 5 == 4) return parse_hashing(text);
    const bool by_number = bytes[1] % 2 == 1;
    data::UserTableOptions options;
    options.path = folder / names[bytes[0] % 5];
    options.header = !by_number;
    options.quotes = bytes[1] / 2 % 2 == 0;
    if (bytes[1] / 4 % 4 == 3) options.separator = ", ";
    write_bytes(options.path, text);
    const bool known = bytes[0] % 5 > 0 && options.separator.empty();
    const bool numbers = by_number && !known;
    const data::FeatureHashing hashing({{numbers ? "1" : "gender", 2, 16}, {numbers ? "2" : "age", 3, 5}});
    Log log;
    const data::HashedUsers users = data::read_hashed_users(options, hashing, log);
    require_sound(users.rows, static_cast<std::int64_t>(users.ids.size()), hashing.features());
  });
}

}  // namespace vaecf::fuzz
