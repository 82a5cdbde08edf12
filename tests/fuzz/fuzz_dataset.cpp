// Fuzzes datasets, written by the HDF5 library with arbitrary shapes, types and values. They must be read
// into valid rows or rejected with a message.
#include <vaecf/io/dataset_file.hpp>

#include "fuzz/hostile_hdf5.hpp"

namespace vaecf::fuzz {
namespace {

/// Writes consistent offsets and columns; the column values may be invalid.
void put_rows(Input& input, test::Hdf5Editor& file, const std::string& matrix) {
  std::vector<std::int64_t> offsets = {0};
  std::vector<std::int64_t> columns;
  for (int rows = input.number<int>(0, 4); rows > 0; --rows) {
    std::int64_t column = -1;
    for (int n = input.number<int>(0, 4); n > 0; --n) {
      column += input.number<std::int64_t>(0, 3);
      columns.push_back(column);
    }
    offsets.push_back(static_cast<std::int64_t>(columns.size()));
  }
  file.put_integers(matrix + "/indptr", offsets, H5T_STD_I64LE);
  file.put_integers(matrix + "/indices", columns, H5T_STD_I32LE);
}

void write(Input& input, test::Hdf5Editor& file) {
  put_some_attribute(input, file, "items");
  put_some_attribute(input, file, "format_version");
  for (const std::string matrix : {"train", "validation/fold_in", "validation/held_out"}) {
    if (input.coin()) {
      put_rows(input, file, "/" + matrix);
      continue;
    }
    put_something(input, file, "/" + matrix + "/indptr", true);
    if (input.number<int>(0, 3) == 0) {
      put_something(input, file, "/" + matrix + "/data", false);
    }
    put_something(input, file, "/" + matrix + "/indices", input.coin());
  }
  put_something(input, file, "/items/id", false);
  if (input.coin()) {
    put_some_attribute(input, file, "user_features");
    put_rows(input, file, "/train/user_features");
  }
  if (input.coin()) {
    put_some_attribute(input, file, "item_features");
    put_some_attribute(input, file, "new_items");
    put_rows(input, file, "/items/features");
  }
  if (input.coin()) put_something(input, file, "/train/interaction_weights", false);
}

void read(const std::string& path) {
  const io::DatasetFile file(path);
  file.fingerprint();
  for (const auto& [matrix, width] :
       {std::pair("train", file.items() - file.new_items()), std::pair("validation/fold_in", file.items()),
        std::pair("validation/held_out", file.items()), std::pair("train/user_features", file.features()),
        std::pair("items/features", file.item_features())})
    require_sound(file.read_rows(matrix, {0, file.rows(matrix)}), file.rows(matrix), width);
  if (file.has_ids("items/id")) file.read_ids("items/id");
}

}  // namespace

void run(std::span<const std::uint8_t> bytes, const std::filesystem::path& folder) {
  const std::string path = folder / "dataset.h5";
  Input input(bytes);
  if (write_hdf5(path, [&](test::Hdf5Editor& file) { write(input, file); })) refused([&] { read(path); });
}

}  // namespace vaecf::fuzz
