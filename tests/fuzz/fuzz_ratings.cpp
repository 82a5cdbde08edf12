// Fuzzes ratings files of all formats, which must be prepared into a dataset or rejected with a message. The
// first byte selects the format, the second the split.
#include <vaecf/data/prepare.hpp>
#include <vaecf/data/prepare_options.hpp>
#include <vaecf/data/source_options.hpp>
#include <vaecf/io/dataset_file.hpp>

#include "fuzz/support.hpp"

namespace vaecf::fuzz {
namespace {

data::SourceOptions source_of(std::uint8_t choice, const std::filesystem::path& folder) {
  static constexpr auto kinds =
      std::to_array<std::pair<const char*, const char*>>({{"movielens_csv", "ratings.csv"},
                                                          {"movielens_dat", "ratings.dat"},
                                                          {"movielens_100k", "u.data"},
                                                          {"delimited", "x.csv"},
                                                          {"delimited", "x.tsv"},
                                                          {"netflix", "combined_data_1.txt"},
                                                          {"lastfm_360k", "plays.tsv"},
                                                          {"adjacency", "train.txt"},
                                                          {"adjacency", "users.dat"},
                                                          {"pinterest", "boards.bson"},
                                                          {"lastfm_2k", "user_artists.dat"}});
  const std::size_t which = choice % kinds.size();
  data::SourceOptions source;
  source.format = kinds[which].first;
  source.path = (folder / kinds[which].second).string();
  if (which == 8) source.list_starts_with = data::ListStart::count;
  if (which == 4) {
    source.separator = "\t";
    source.header = false;
    source.rating_column = "2";
  }
  return source;
}

}  // namespace

void run(std::span<const std::uint8_t> bytes, const std::filesystem::path& folder) {
  if (bytes.size() < 2) return;
  const data::SourceOptions source = source_of(bytes[0], folder);
  write_bytes(source.path, text_of(bytes.subspan(2)));
  data::PrepareOptions options;
  options.min_rating = 1.0;
  options.min_user_items = 1;
  options.validation_users = 1;
  options.test_users = 1;
  options.split = static_cast<data::SplitMethod>(bytes[1] % 4);  // all except `given`
  options.held_out = bytes[1] / 4 % 2 == 0 ? data::HeldOut::random : data::HeldOut::last;
  options.weights = static_cast<data::WeightRule>(bytes[1] / 16 % 3);
  const data::PrepareFlags mode{.strict = bytes[1] / 8 % 2 == 1};
  const std::string output = folder / "out.h5";
  std::filesystem::remove(output);
  Log log;
  Progress progress;
  const bool was_refused = refused([&] {
    data::prepare(source, options, "fuzz", output, mode, log, progress);
    const io::DatasetFile file(output);
    for (const char* matrix : {"train", "validation/fold_in", "validation/held_out", "test/fold_in"}) {
      file.read_rows(matrix, {0, file.rows(matrix)});
    }
  });
  require(was_refused != std::filesystem::exists(output), "a rejected source leaves no dataset");
}

}  // namespace vaecf::fuzz
