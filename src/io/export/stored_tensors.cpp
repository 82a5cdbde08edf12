#include <vaecf/base/error.hpp>
#include <vaecf/io/stored_tensors.hpp>

#include <string_view>

namespace vaecf::io {
namespace {

std::string_view bytes_view(const auto& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

ExportTensor constant(const std::string& name, TensorType type, std::vector<std::int64_t> shape,
                      auto values) {
  return {name, type, std::move(shape),
          [values = std::move(values)](AtomicOutputFile& file) { file.write(bytes_view(values)); }};
}

}  // namespace

ExportTensor stored_tensor(const CheckpointFile& checkpoint, const std::string& layer,
                           const std::string& part, std::int64_t columns,
                           std::function<void(std::span<float> row)> change) {
  const std::string path = format("weights/{}/{}", layer, part);
  const auto* info = checkpoint.find_tensor(path);
  if (info == nullptr) throw InputError(format("the checkpoint contains no /{}", path));
  const std::int64_t kept = columns > 0 ? columns : info->columns;
  ExportTensor tensor{layer + "." + part, TensorType::float32, {info->rows, kept}, {}};
  if (part == "bias" || part == "gain" || part == "offset") tensor.shape = {kept};
  tensor.write = [&checkpoint, info, kept, change = std::move(change)](AtomicOutputFile& file) {
    checkpoint.for_each_row(*info, [&](std::int64_t, std::span<float> row) {
      if (change) change(row);
      file.write(bytes_view(row.first(kept)));
    });
  };
  return tensor;
}

ExportTensor constant_tensor(const std::string& name, std::vector<std::int64_t> shape,
                             std::vector<std::int64_t> values) {
  return constant(name, TensorType::int64, std::move(shape), std::move(values));
}

ExportTensor constant_tensor(const std::string& name, std::vector<std::int64_t> shape,
                             std::vector<float> values) {
  return constant(name, TensorType::float32, std::move(shape), std::move(values));
}

ExportTensor constant_tensor(const std::string& name, std::vector<std::int64_t> shape,
                             std::vector<std::int32_t> values) {
  return constant(name, TensorType::int32, std::move(shape), std::move(values));
}

ExportTensor constant_tensor(const std::string& name, std::vector<std::int64_t> shape, std::string bytes) {
  return constant(name, TensorType::uint8, std::move(shape), std::move(bytes));
}

}  // namespace vaecf::io
