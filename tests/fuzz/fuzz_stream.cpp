// Fuzzes the lines of recommend --stream. The first byte selects numeric or string ids, and what the model
// has.
#include "app/recommend/stream_request.hpp"
#include "fuzz/support.hpp"

void vaecf::fuzz::run(std::span<const std::uint8_t> bytes, const std::filesystem::path& /*folder*/) {
  if (bytes.empty()) return;
  io::IdList ids;
  if (bytes[0] % 2 == 0)
    ids.numbers = {1, 2, 3, 10, -7, 9223372036854775807};
  else
    ids.strings = {"a", "b", "item 3", "\xC3\xA9", "1"};
  const app::ItemNames names(ids);
  app::StreamFields fields{names};
  if (bytes[0] % 4 >= 2) fields.weights = data::WeightRule::log1p;
  if (bytes[0] % 8 >= 4) fields.features = data::FeatureHashing({{"age", 2, 16}, {"city", 1, 3}});
  fields.max_reasons = bytes[0] % 16 >= 8 ? 5 : 0;
  std::string user;
  refused([&] {
    const app::StreamRequest read = app::read_stream_request(text_of(bytes.subspan(1)), fields, user);
    Csr rows;
    rows.append({read.items, read.weights});
    require_sound(rows, 1, ids.size());
    Csr features;
    features.append({read.features, {}});
    require_sound(features, 1, fields.features.features());
  });
}
