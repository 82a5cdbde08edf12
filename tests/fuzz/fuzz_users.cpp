// Fuzzes user tables and the text form of FeatureHashing. The first byte selects between them, the second the
// table format.
#include <vaecf/data/prepare.hpp>

#include <array>
#include <string_view>

#include "fuzz/support.hpp"
#include "support/temporary_folder.hpp"

using namespace vaecf;

namespace {

void parse_hashing(std::string_view text) {
  const data::FeatureHashing hashing = data::FeatureHashing::parse(text);
  fuzz::require(data::FeatureHashing::parse(hashing.to_string()) == hashing,
                "to_string() and parse() round-trip");
  const std::vector<std::string> values(hashing.columns().size(), "x");
  const auto row = hashing.row(values);
  fuzz::require_sound(row, hashing.features());
}

void read_table(const data::UserTableOptions& options, const data::FeatureHashing& hashing) {
  Log log;
  const data::HashedUsers users = data::read_hashed_users(options, hashing, log);
  fuzz::require_sound(users.rows, static_cast<std::int64_t>(users.ids.size()), hashing.features());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size < 2) return 0;
  static const testing::TemporaryFolder folder;
  static const std::array<const char*, 4> names{"people.csv", "users.dat", "u.user", "usersha1-profile.tsv"};
  const std::string_view text(reinterpret_cast<const char*>(bytes + 2), size - 2);
  fuzz::refused([&] {
    if (bytes[0] % 5 == 4) return parse_hashing(text);
    const bool by_number = bytes[1] % 2 == 1;
    data::UserTableOptions options;
    options.path = (folder.path() / names[bytes[0] % 5]).string();
    options.header = !by_number;
    options.quotes = bytes[1] / 2 % 2 == 0;
    if (bytes[1] / 4 % 4 == 3) options.separator = ", ";
    fuzz::write_bytes(options.path, text);
    const bool known = bytes[0] % 5 > 0 && options.separator.empty();
    const bool numbers = by_number && !known;
    read_table(options,
               data::FeatureHashing({{numbers ? "1" : "gender", 2, 16}, {numbers ? "2" : "age", 3, 5}}));
  });
  return 0;
}
