// Any bytes as a ratings file of any format: prepared into a dataset, or refused with a message. The first
// byte chooses the format, the second the split.
#include "fuzz/support.hpp"
#include "support/temporary_folder.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <filesystem>
#include <fstream>

using namespace vaecf;

namespace {

data::SourceOptions source_of(std::uint8_t choice, const std::filesystem::path& folder) {
  static const char* const formats[] = {"movielens_csv", "movielens_dat", "movielens_100k", "delimited",
                                        "delimited"};
  static const char* const names[] = {"ratings.csv", "ratings.dat", "u.data", "x.csv", "x.tsv"};
  const std::size_t which = choice % 5;
  data::SourceOptions source;
  source.format = formats[which];
  source.path = (folder / names[which]).string();
  if (which == 4) {
    source.separator = "\t";
    source.header = false;
    source.rating_column = "2";
  }
  return source;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size < 2) return 0;
  static const testing::TemporaryFolder folder;
  const data::SourceOptions source = source_of(bytes[0], folder.path());
  {
    std::ofstream file(source.path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes + 2), static_cast<std::streamsize>(size - 2));
  }
  data::PrepareOptions options;
  options.min_rating = 1.0;
  options.min_user_items = 1;
  options.validation_users = 1;
  options.test_users = 1;
  options.split = bytes[1] % 2 == 0 ? "liang2018" : "random";
  const std::string output = (folder.path() / "out.h5").string();
  std::filesystem::remove(output);
  Log log;
  Progress progress;
  try {
    data::prepare(source, options, "fuzz", output, log, progress);
    const io::DatasetFile file(output);
    for (const char* matrix : {"train", "validation/fold_in", "validation/held_out", "test/fold_in"}) {
      file.read_rows(matrix, {0, file.rows(matrix)});
    }
  } catch (const InputError& error) {
    fuzz::require_message(error);
    fuzz::require(!std::filesystem::exists(output), "a refused source leaves no dataset");
  }
  return 0;
}
