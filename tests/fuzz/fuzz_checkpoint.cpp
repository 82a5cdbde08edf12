// Fuzzes checkpoints. Half of the inputs damage a valid checkpoint; any changed byte must be detected. The
// other half are HDF5 files of arbitrary shapes, types and values with a valid checksum, which must be read
// or rejected with a message.
#include <vaecf/io/checkpoint.hpp>

#include "fuzz/hostile_hdf5.hpp"
#include "support/sealed_checkpoint.hpp"

namespace vaecf::fuzz {
namespace {

void read_all(const std::string& path) {
  const io::CheckpointFile file(path);
  for (const auto& tensor : file.tensors()) {
    std::vector<float> row(static_cast<std::size_t>(std::min<std::int64_t>(tensor.columns, 1 << 16)));
    if (tensor.rows > 0 && tensor.columns <= 1 << 16) file.read_rows(tensor.name, 0, 1, row);
  }
  file.dataset();
}

std::string make_checkpoint(const std::string& path) {
  const auto filled = [](float value) {
    return [value](std::int64_t, std::int64_t, std::span<float> out) { std::ranges::fill(out, value); };
  };
  const std::vector<io::TensorSource> tensors = {{"weights/encoder_1/weight", 3, 4, false, filled(0.5F)},
                                                 {"weights/encoder_1/bias", 1, 4, true, filled(-1.0F)}};
  const io::DatasetSummary summary{{{5, 7, 9}, {}}, {}, {1, 0, 2}, {3}};
  io::write_checkpoint(
      path, {{"items", std::int64_t{3}}, {"step", std::int64_t{7}}, {"configuration", std::string("a: b")}},
      tensors, {}, &summary);
  return bytes_of(path);
}

void damage(Input& input, std::string& bytes) {
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

void run(std::span<const std::uint8_t> data, const std::filesystem::path& folder) {
  const std::string path = folder / "checkpoint.h5";
  Input input(data);
  if (input.coin()) {
    static const std::string whole = make_checkpoint(folder / "whole.h5");
    std::string bytes = whole;
    damage(input, bytes);
    write_bytes(path, bytes);
    require(refused([&] { read_all(path); }) != (bytes == whole),
            "damaged files, and only these, are rejected");
    return;
  }
  const std::string inner = folder / "inner.h5";
  const bool written = write_hdf5(inner, [&](test::Hdf5Editor& file) {
    put_some_attribute(input, file, "step");
    put_some_attribute(input, file, "items");
    for (const char* const name :
         {"/weights/encoder_1/weight", "/weights/encoder_1/bias", "/optimizer/first_moment/encoder_1/weight",
          "/items/id", "/items/title", "/items/users", "/users/hash"})
      put_something(input, file, name, false);
  });
  if (!written) return;
  write_bytes(path, testing::sealed_checkpoint(bytes_of(inner)));
  refused([&] { read_all(path); });
}

}  // namespace vaecf::fuzz
