// Fuzzes checkpoints. Half of the inputs damage a valid checkpoint; any changed byte must be detected. The
// other half are HDF5 files of arbitrary shapes, types and values with a valid checksum, which must be read
// or rejected with a message.
#include <vaecf/io/checkpoint.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "fuzz/hostile_hdf5.hpp"
#include "fuzz/support.hpp"
#include "support/sealed_checkpoint.hpp"
#include "support/temporary_folder.hpp"

using namespace vaecf;

using vaecf::fuzz::put_some_attribute;
using vaecf::fuzz::put_something;

namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void read_all(const std::string& path) {
  const io::CheckpointFile file(path);
  for (const auto& tensor : file.tensors()) {
    std::vector<float> row(static_cast<std::size_t>(std::min<std::int64_t>(tensor.columns, 1 << 16)));
    if (tensor.rows > 0 && tensor.columns <= 1 << 16) file.read_rows(tensor.name, 0, 1, row);
  }
  file.dataset();
}

const std::string& whole_checkpoint(const testing::TemporaryFolder& folder) {
  static const std::string bytes = [&] {
    const std::string path = (folder.path() / "whole.h5").string();
    const std::vector<io::TensorSource> tensors = {
        {"weights/encoder_1/weight", 3, 4, false,
         [](std::int64_t, std::int64_t, std::span<float> out) { std::fill(out.begin(), out.end(), 0.5F); }},
        {"weights/encoder_1/bias", 1, 4, true,
         [](std::int64_t, std::int64_t, std::span<float> out) { std::fill(out.begin(), out.end(), -1.0F); }}};
    const io::DatasetSummary summary{{{5, 7, 9}, {}}, {}, {1, 0, 2}, {3}};
    io::write_checkpoint(
        path, {{"items", std::int64_t{3}}, {"step", std::int64_t{7}}, {"configuration", std::string("a: b")}},
        tensors, {}, &summary);
    return bytes_of(path);
  }();
  return bytes;
}

void damage(fuzz::Input& input, std::string& bytes) {
  for (int n = input.number<int>(1, 4); n > 0 && !bytes.empty(); --n) {
    const auto at = input.number<std::size_t>(0, bytes.size() - 1);
    switch (input.number<int>(0, 3)) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes.insert(at, input.text(16));
        break;
      default:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << input.number<int>(0, 7)));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const testing::TemporaryFolder folder;
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  const std::string path = (folder.path() / "checkpoint.h5").string();
  fuzz::Input input(data, size);
  if (input.coin()) {
    const std::string& whole = whole_checkpoint(folder);
    std::string bytes = whole;
    damage(input, bytes);
    fuzz::write_bytes(path, bytes);
    fuzz::require(fuzz::refused([&] { read_all(path); }) != (bytes == whole),
                  "damaged files, and only these, are rejected");
    return 0;
  }
  const std::string hdf5 = (folder.path() / "inner.h5").string();
  std::filesystem::remove(hdf5);
  try {
    test::Hdf5Editor file(hdf5);
    put_some_attribute(input, file, "step");
    put_some_attribute(input, file, "items");
    put_something(input, file, "/weights/encoder_1/weight", false);
    put_something(input, file, "/weights/encoder_1/bias", false);
    put_something(input, file, "/optimizer/first_moment/encoder_1/weight", false);
    for (const char* const path : {"/items/id", "/items/title", "/items/users", "/users/hash"})
      put_something(input, file, path, false);
  } catch (const std::logic_error&) {
    return 0;  // the HDF5 library refuses to write this
  }
  fuzz::write_bytes(path, testing::sealed_checkpoint(bytes_of(hdf5)));
  fuzz::refused([&] { read_all(path); });
  return 0;
}
