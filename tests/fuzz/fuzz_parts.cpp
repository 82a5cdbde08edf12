// Datasets in three files, some of whose tables, matrices and attributes have been replaced by others that
// the HDF5 library wrote, or which are not the ones of this dataset: read into the rows that one would
// expect, or refused with a message.
#include "fuzz/hostile_hdf5.hpp"
#include "fuzz/support.hpp"
#include "support/temporary_folder.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <algorithm>
#include <filesystem>
#include <functional>

using namespace vaecf;

using vaecf::fuzz::any_numbers;
using vaecf::fuzz::put_some_attribute;
using vaecf::fuzz::put_something;

namespace {

constexpr int parts = 3;

std::string part_of(const std::filesystem::path& folder, int number) {
  return (folder / format("d-{:05}-of-{:05}.h5", number, parts)).string();
}

void write(const std::filesystem::path& folder) {
  io::DatasetWriter writer((folder / "d.h5").string(), {parts, 0});
  writer.set_train_rows(7);
  for (std::int32_t user = 0; user < 7; ++user) {
    const std::int32_t row[] = {user, user + 2};
    writer.append_row("train", row);
    writer.append_row("validation/held_out", std::span(row).first(1));
    writer.append_row("train/features", std::span(row).last(1));
  }
  writer.link("validation/fold_in", "train");
  writer.set_attribute("items", std::int64_t{9});
  writer.set_attribute("features", std::int64_t{9});
  writer.link("validation/features", "train/features");
  writer.commit();
}

void damage(fuzz::Input& input, const std::filesystem::path& folder) {
  const int number = input.number<int>(0, parts - 1);
  switch (input.number<int>(0, 7)) {
    case 0:
      std::filesystem::remove(part_of(folder, number));
      return;
    case 1:
      // The other one may be gone by an earlier damage.
      if (std::filesystem::exists(part_of(folder, (number + 1) % parts))) {
        std::filesystem::copy(part_of(folder, (number + 1) % parts), part_of(folder, number),
                              std::filesystem::copy_options::overwrite_existing);
      }
      return;
    default:
      break;
  }
  if (!std::filesystem::exists(part_of(folder, number))) return;
  test::Hdf5Editor file(part_of(folder, number));
  if (input.coin()) {
    const char* const names[] = {"part", "parts", "parts_of"};
    const char* const name = input.pick(names);
    file.remove_attribute(name);
    put_some_attribute(input, file, name);
    return;
  }
  const char* const paths[] = {"/parts/train_rows",   "/parts/train_entries", "/parts/features_entries",
                               "/train/indptr",       "/train/indices",       "/train/features/indptr",
                               "/validation/fold_in", "/train/features"};
  const char* const path = input.pick(paths);
  file.remove(path);
  put_something(input, file, path, true);
}

void read(const std::string& path) {
  const io::DatasetFile file(path);
  file.fingerprint();
  for (const char* matrix :
       {"train", "validation/fold_in", "validation/held_out", "train/features", "validation/features"}) {
    const std::int64_t rows = file.rows(matrix);
    const Csr all = file.read_rows(matrix, {0, rows});
    fuzz::require(all.rows() == rows, "as many rows as were told");
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto items = all.view().row(row);
      fuzz::require(std::is_sorted(items.begin(), items.end(), std::less_equal<>()),
                    "items ascend, once each");
      fuzz::require(items.empty() || (items.front() >= 0 && items.back() < 9), "items are in range");
      const Csr one = file.read_rows(matrix, {row, row + 1});
      fuzz::require(std::ranges::equal(one.columns, items), "a row alone is what it is among others");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const testing::TemporaryFolder folder;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    std::filesystem::remove(entry.path());
  }
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  fuzz::Input input(bytes, size);
  write(folder.path());
  try {
    for (int damages = input.number<int>(1, 2); damages > 0; --damages) damage(input, folder.path());
  } catch (const std::logic_error&) {
    return 0;  // not even the library would write that
  }
  try {
    read((folder.path() / "d-*-of-*.h5").string());
  } catch (const InputError& error) {
    fuzz::require_message(error);
  }
  return 0;
}
