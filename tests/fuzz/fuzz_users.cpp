// Any bytes as a table of users, or as the text that tells how values are hashed. The first byte chooses
// which, the second how the table is to be read.
#include "fuzz/support.hpp"
#include "support/temporary_folder.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/data/prepare.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>

using namespace vaecf;

namespace {

void parse_hashing(std::string_view text) {
  const data::FeatureHashing hashing = data::FeatureHashing::parse(text);
  fuzz::require(data::FeatureHashing::parse(hashing.to_string()) == hashing, "it comes back as it was");
  const std::vector<std::string> values(hashing.columns().size(), "x");
  const auto row = hashing.row(values);
  fuzz::require(std::is_sorted(row.begin(), row.end(), std::less_equal<>()), "columns ascend, once each");
  fuzz::require(row.empty() || (row.front() >= 0 && row.back() < hashing.features()), "columns are in range");
}

void read_table(const data::UsersTableOptions& options, const data::FeatureHashing& hashing) {
  Log log;
  const data::HashedUsers users = data::read_hashed_users(options, hashing, log);
  fuzz::require(users.rows.rows() == static_cast<std::int64_t>(users.ids.size()), "one row a user");
  for (std::int64_t user = 0; user < users.rows.rows(); ++user) {
    const auto row = users.rows.view().row(user);
    fuzz::require(std::is_sorted(row.begin(), row.end(), std::less_equal<>()), "columns ascend, once each");
    fuzz::require(row.empty() || (row.front() >= 0 && row.back() < hashing.features()),
                  "columns are in range");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size < 2) return 0;
  static const testing::TemporaryFolder folder;
  static const std::array<const char*, 4> names{"people.csv", "users.dat", "u.user", "usersha1-profile.tsv"};
  const std::string_view text(reinterpret_cast<const char*>(bytes + 2), size - 2);
  try {
    if (bytes[0] % 5 == 4) {
      parse_hashing(text);
      return 0;
    }
    const bool by_number = bytes[1] % 2 == 1;
    data::UsersTableOptions options;
    options.path = (folder.path() / names[bytes[0] % 5]).string();
    options.header = !by_number;
    options.quotes = bytes[1] / 2 % 2 == 0;
    if (bytes[1] / 4 % 4 == 3) options.separator = ", ";
    std::ofstream(options.path, std::ios::binary)
        .write(text.data(), static_cast<std::streamsize>(text.size()));
    const bool known = bytes[0] % 5 > 0 && options.separator.empty();
    const bool numbers = by_number && !known;
    read_table(options,
               data::FeatureHashing({{numbers ? "1" : "gender", 2, 16}, {numbers ? "2" : "age", 3, 5}}));
  } catch (const InputError& error) {
    fuzz::require_message(error);
  }
  return 0;
}
