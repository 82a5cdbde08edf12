// Fuzzes the list of users to recommend for. The first byte selects numeric or string ids, and the
// description of the dataset.
#include "app/recommend/input_files.hpp"
#include "fuzz/support.hpp"

using namespace vaecf;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size < 1) return 0;
  const fuzz::MemoryFile file({reinterpret_cast<const char*>(bytes + 1), size - 1});
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
  fuzz::refused([&] {
    const app::Histories read = app::read_histories(file.path(), source, app::ItemNames(ids, titles));
    fuzz::require_sound(read.seen, static_cast<std::int64_t>(read.users.size()), ids.size());
  });
  return 0;
}
