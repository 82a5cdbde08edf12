#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/io/model_export.hpp>

#include <bit>

namespace vaecf::io {

static_assert(std::endian::native == std::endian::little, "tensors are written in host byte order");

std::int64_t ExportTensor::bytes() const {
  constexpr std::int64_t sizes[] = {4, 8, 1, 8, 4};
  std::int64_t bytes = sizes[static_cast<int>(type)];
  for (const std::int64_t size : shape) bytes *= size;
  return bytes;
}

void write_safetensors(const std::string& path, const std::map<std::string, std::string>& metadata,
                       const std::vector<ExportTensor>& tensors) {
  Json header = {{"__metadata__", Json::object()}};
  for (const auto& [key, value] : metadata) header["__metadata__"][key] = value;
  std::int64_t offset = 0;
  for (const ExportTensor& tensor : tensors) {
    constexpr const char* types[] = {"F32", "I64", "U8", "F64", "I32"};
    header[tensor.name] = {{"dtype", types[static_cast<int>(tensor.type)]},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text = dump(header);
  text.append((8 - text.size() % 8) % 8, ' ');  // aligns the tensors to 8 bytes

  AtomicOutputFile file(path);
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>((text.size() >> (8 * i)) & 0xFF);
  file.write(length);
  file.write(text);
  for (const ExportTensor& tensor : tensors) tensor.write(file);
  file.commit();
}

}  // namespace vaecf::io
