#include <vaecf/io/checkpoint.hpp>

#include "io/checkpoint_seal.hpp"
#include "io/hdf5_values.hpp"
#include "io/hdf5_writer.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace vaecf::io {
namespace {

constexpr std::int64_t block_floats = std::int64_t{4} << 20;  // 16 MiB

/// Copies a tensor into the file by blocks of rows. Not inside Hdf5Writer::write: what `source` throws is its
/// own affair.
void write_tensor(Hdf5Writer& file, const TensorSource& source) {
  if (source.rows < 0 || source.columns < 0 || (source.vector && source.rows != 1)) {
    throw RunError(format("{}: tensor {} has an impossible shape ({}, {})", file.path(), source.name,
                          source.rows, source.columns));
  }
  const std::array<hsize_t, 2> matrix = {static_cast<hsize_t>(source.rows),
                                         static_cast<hsize_t>(source.columns)};
  const std::span<const hsize_t> shape = std::span(matrix).subspan(source.vector ? 1 : 0);
  h5::Handle dataset;
  file.write([&] { dataset = h5::create_dataset(file.id(), source.name, H5T_IEEE_F32LE, shape, 0); });

  const std::int64_t step =
      std::max<std::int64_t>(1, block_floats / std::max<std::int64_t>(1, source.columns));
  std::vector<float> block(static_cast<std::size_t>(std::min(step, source.rows) * source.columns));
  for (std::int64_t begin = 0; begin < source.rows; begin += step) {
    const std::int64_t end = std::min(source.rows, begin + step);
    const auto values = std::span(block).first(static_cast<std::size_t>((end - begin) * source.columns));
    source.read_rows(begin, end, values);
    const std::int64_t count = source.vector ? source.columns : end - begin;
    file.write([&] { h5::write_rows(dataset.id(), H5T_NATIVE_FLOAT, begin, count, values.data()); });
  }
}

}  // namespace

void write_checkpoint(const std::string& path, const Attributes& attributes,
                      std::span<const TensorSource> tensors) {
  Hdf5Writer file(path, seal_bytes);
  file.write([&] { write_attributes(file.id(), attributes); });
  for (const auto& tensor : tensors) write_tensor(file, tensor);
  file.finish();
  const SealBlock seal = make_seal(file.descriptor(), path);
  const int code = write_at(file.descriptor(), {seal.data(), seal.size()}, 0);
  if (code != 0) throw_write_error(path, code);
  file.commit();
}

}  // namespace vaecf::io
