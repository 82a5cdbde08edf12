// Fuzzes tables of users and items, and the text form of FeatureHashing. The first byte selects between them,
// the second the table format.
#include <vaecf/data/feature_hashing.hpp>
#include <vaecf/data/hashed_users.hpp>
#include <vaecf/data/source_options.hpp>

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
  using Names = std::array<const char*, 4>;
  static const Names user_tables{"people.csv", "users.dat", "u.user", "usersha1-profile.tsv"};
  static const Names item_tables{"things.csv", "movies.dat", "u.item", "movies.csv"};
  const std::string_view text = text_of(bytes.subspan(2));
  refused([&] {
    if (bytes[0] % 5 == 4) return parse_hashing(text);
    const bool by_number = bytes[1] % 2 == 1;
    const bool items = bytes[1] / 32 % 2 == 1;
    data::FeatureTableOptions options;
    options.of = items ? data::TableOf::items : data::TableOf::users;
    options.path = folder / (items ? item_tables : user_tables)[bytes[0] % 5];
    options.header = !by_number;
    options.quotes = bytes[1] / 2 % 2 == 0;
    if (bytes[1] / 4 % 4 == 3) options.separator = ", ";
    write_bytes(options.path, text);
    const bool known = bytes[0] % 5 > 0 && options.separator.empty();
    const bool numbers = by_number && !known;
    using Columns = std::array<const char*, 2>;
    const Columns columns = numbers ? Columns{"1", "2"}
                            : items ? Columns{"genres", "title"}
                                    : Columns{"gender", "age"};
    const data::FeatureHashing hashing({{columns[0], 2, 16}, {columns[1], 3, 5}});
    Log log;
    const data::HashedUsers users = data::read_hashed_users(options, hashing, log);
    require_sound(users.rows, static_cast<std::int64_t>(users.ids.size()), hashing.features());
  });
}

}  // namespace vaecf::fuzz
