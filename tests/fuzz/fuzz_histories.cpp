// Fuzzes the list of users to recommend for. The first byte selects numeric or string ids, and the
// description of the dataset.
#include "app/recommend/histories.hpp"
#include "app/recommend/item_names.hpp"
#include "fuzz/support.hpp"

void vaecf::fuzz::run(std::span<const std::uint8_t> bytes, const std::filesystem::path& folder) {
  if (bytes.empty()) return;
  const std::string path = folder / "users";
  write_bytes(path, text_of(bytes.subspan(1)));
  io::IdList ids;
  if (bytes[0] % 2 == 0)
    ids.numbers = {1, 2, 3, 10, -7, 9223372036854775807};
  else
    ids.strings = {"a", "b", "item 3", "\xC3\xA9", "1"};
  io::IdList titles;
  if (bytes[0] % 4 == 1) titles.strings = {"Alpha", "Beta, The", "Alpha", "a", ""};
  data::SourceOptions source;
  if (bytes[0] % 8 >= 4) {
    source.format = "delimited";
    source.separator = bytes[0] % 16 >= 8 ? "::" : ";";
    source.user_column = bytes[0] % 32 >= 16 ? "2" : "who";
    source.item_column = "what";
  }
  const app::InputWeights weights{bytes[0] % 64 >= 32 ? data::WeightRule::rating : data::WeightRule::log1p,
                                  data::DuplicateRule::sum, "2"};
  refused([&] {
    const app::Histories read =
        app::read_histories(path, source, app::ItemNames(ids, titles), bytes[0] >= 128 ? &weights : nullptr);
    require_sound(read.seen, static_cast<std::int64_t>(read.users.size()), ids.size());
  });
}
