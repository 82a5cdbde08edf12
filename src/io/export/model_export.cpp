#include <vaecf/base/error.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/io/model_export.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <string_view>

#include "io/hdf5/hdf5.hpp"

namespace vaecf::io {

static_assert(std::endian::native == std::endian::little, "tensors are written in host byte order");

namespace {

// Protobuf wire format: a field is its key (field number and wire type) followed by a varint (type 0), or by
// a length and as many bytes (type 2, for strings and messages). Field numbers and names are those of
// onnx.proto (opsets 13 to 18).

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  return out + static_cast<char>(value);
}

std::string number(std::uint64_t field, std::int64_t value) {
  return varint(field << 3) + varint(static_cast<std::uint64_t>(value));
}

std::string head(std::uint64_t field, std::int64_t size) {
  return varint((field << 3) | 2) + varint(static_cast<std::uint64_t>(size));
}

std::string bytes(std::uint64_t field, std::string_view content) {
  return head(field, static_cast<std::int64_t>(content.size())).append(content);
}

int type_number(TensorType type) {
  constexpr int numbers[] = {1, 7, 2, 11, 6};  // TensorProto.FLOAT, INT64, UINT8, DOUBLE, INT32
  return numbers[static_cast<int>(type)];
}

std::string node_message(const OnnxNode& node) {
  std::string out;
  for (const auto& input : node.inputs) out += bytes(1, input);
  out += bytes(2, node.output) + bytes(3, node.output) + bytes(4, node.op);  // 3: its name
  for (const auto& [name, value] : node.attributes) {
    const auto* text = std::get_if<std::string>(&value);  // AttributeProto.STRING or .INT
    out += bytes(5, bytes(1, name) + (text != nullptr ? bytes(4, *text) + number(20, 3)
                                                      : number(3, std::get<0>(value)) + number(20, 2)));
  }
  return out;
}

std::string value_message(const OnnxValue& value) {
  std::string shape;
  for (const std::string& size : value.shape) {
    const bool numeric = size.find_first_not_of("0123456789") == std::string::npos;
    shape += bytes(1, numeric ? number(1, std::stoll(size)) : bytes(2, size));
  }
  const std::string tensor = number(1, type_number(value.type)) + bytes(2, shape);
  return bytes(1, value.name) + bytes(2, bytes(1, tensor));
}

/// Returns a TensorProto without its data; the last element is the header of the data field.
std::string tensor_head(const ExportTensor& tensor) {
  std::string out;
  for (const std::int64_t size : tensor.shape) out += number(1, size);
  return out + number(2, type_number(tensor.type)) + bytes(8, tensor.name) + head(9, tensor.bytes());
}

}  // namespace

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
  const std::uint64_t length = text.size();
  file.write({reinterpret_cast<const char*>(&length), sizeof length});
  file.write(text);
  for (const ExportTensor& tensor : tensors) tensor.write(file);
  file.commit();
}

void write_onnx(const std::string& path, const OnnxModel& model) {
  std::string graph;
  for (const OnnxNode& node : model.nodes) graph += bytes(1, node_message(node));
  graph += bytes(2, model.name);
  for (const OnnxValue& value : model.inputs) graph += bytes(11, value_message(value));
  for (const OnnxValue& value : model.outputs) graph += bytes(12, value_message(value));
  std::vector<std::string> heads;
  auto graph_size = static_cast<std::int64_t>(graph.size());
  for (const ExportTensor& tensor : model.initializers) {
    const std::string rest = tensor_head(tensor);
    heads.push_back(head(5, static_cast<std::int64_t>(rest.size()) + tensor.bytes()) + rest);
    graph_size += static_cast<std::int64_t>(heads.back().size()) + tensor.bytes();
  }
  const std::int64_t ir_version = model.opset < 15 ? 7 : 8;
  std::string start = number(1, ir_version) + bytes(2, "vaecf_dist") + bytes(6, model.description);
  start += bytes(8, bytes(1, "") + number(2, model.opset));
  for (const auto& [key, value] : model.metadata) start += bytes(14, bytes(1, key) + bytes(2, value));
  start += head(7, graph_size);
  if (static_cast<std::int64_t>(start.size()) + graph_size > std::numeric_limits<std::int32_t>::max()) {
    throw InputError(format(
        "{}: an ONNX file is limited to 2 GiB, but the weights of this model have {} bytes; export it as .safetensors",
        path, graph_size));
  }
  AtomicOutputFile file(path);
  file.write(start);
  file.write(graph);
  for (std::size_t i = 0; i < heads.size(); ++i) {
    file.write(heads[i]);
    model.initializers[i].write(file);
  }
  file.commit();
}

struct RecommendationWriter::File {
  File(const std::string& path, Attributes all) : writer(path), attributes(std::move(all)) {}

  Hdf5Writer writer;
  Attributes attributes;
  h5::Handle items;
  h5::Handle scores;
  h5::Handle popular;
  h5::Handle because;
  h5::Handle contributions;
  std::int64_t written = 0;
};

RecommendationWriter::RecommendationWriter(const std::string& path, const RecommendationHeader& header)
    : file_(std::make_unique<File>(path, header.attributes)) {
  Hdf5Writer& writer = file_->writer;
  const bool similar = !header.similar_to.empty();
  if (!similar) writer.write_ids("user_id", header.users);
  writer.write_ids("item_id", header.items);
  if (header.titles.size() > 0) writer.write_ids("item_title", header.titles);
  const auto lists = static_cast<hsize_t>(similar ? std::ssize(header.similar_to) : header.users.size());
  const std::array<hsize_t, 3> shape = {lists, static_cast<hsize_t>(header.k),
                                        static_cast<hsize_t>(header.reasons)};
  const std::span all(shape);
  if (similar) writer.write_array("item_index", std::span(header.similar_to));
  const char* const places = similar ? "similar_index" : "item_index";
  file_->items = writer.create(places, H5T_NATIVE_INT32, all.first(2));
  file_->scores = writer.create("score", H5T_NATIVE_FLOAT, all.first(2));
  if (similar) return;
  file_->popular = writer.create("popular", H5T_NATIVE_UINT8, all.first(1));
  if (header.reasons == 0) return;
  file_->because = writer.create("because_index", H5T_NATIVE_INT32, all);
  file_->contributions = writer.create("contributions", H5T_NATIVE_FLOAT, all);
}

RecommendationWriter::~RecommendationWriter() = default;

void RecommendationWriter::append(std::span<const std::int32_t> items, std::span<const float> scores,
                                  std::span<const std::uint8_t> popular,
                                  std::span<const std::int32_t> because,
                                  std::span<const float> contributions) {
  const auto rows = static_cast<std::int64_t>(popular.size());
  file_->writer.write([&] {
    h5::write_rows(file_->items.id(), H5T_NATIVE_INT32, file_->written, rows, items.data());
    h5::write_rows(file_->scores.id(), H5T_NATIVE_FLOAT, file_->written, rows, scores.data());
    if (!file_->popular.empty())
      h5::write_rows(file_->popular.id(), H5T_NATIVE_UINT8, file_->written, rows, popular.data());
    if (because.empty()) return;
    h5::write_rows(file_->because.id(), H5T_NATIVE_INT32, file_->written, rows, because.data());
    h5::write_rows(file_->contributions.id(), H5T_NATIVE_FLOAT, file_->written, rows, contributions.data());
  });
  file_->written += rows;
}

void RecommendationWriter::commit() {
  for (h5::Handle* dataset :
       {&file_->items, &file_->scores, &file_->popular, &file_->because, &file_->contributions})
    dataset->reset();
  file_->writer.write_attributes(file_->attributes);
  file_->writer.commit();
}

RecommendedLists read_recommendations(const std::string& path) {
  const Hdf5Reader reader(path, "write it with `vaecf_dist recommend`");
  return reader.as_input_error([&] {
    RecommendedLists lists{reader.ids("user_id"), reader.ids("item_id"), {}};
    const Hdf5Dataset item = reader.open("item_index", 2);
    if (item.kind() != H5T_INTEGER || item.shape.size() != 2 || item.shape[0] != lists.users.size())
      reader.refuse("/item_index must have a row of integers for each of /user_id");
    lists.places.resize(static_cast<std::size_t>(item.shape[0] * item.shape[1]));
    h5::read_rows(item.id.id(), H5T_NATIVE_INT32, 0, item.shape[0], lists.places.data());
    const auto is_known = [&](std::int32_t place) { return place >= -1 && place < lists.items.size(); };
    if (!std::ranges::all_of(lists.places, is_known))
      reader.refuse("/item_index contains an index outside /item_id");
    return lists;
  });
}

void write_user_columns(const std::string& path, const UserColumns& content) {
  Hdf5Writer writer(path);
  writer.write_ids("user_id", content.users);
  for (const UserColumns::Column& column : content.columns) {
    if (const auto* ids = std::get_if<IdList>(&column.values)) writer.write_ids(column.path, *ids);
    if (const auto* counts = std::get_if<std::vector<std::int64_t>>(&column.values))
      writer.write_array(column.path, std::span(*counts));
    if (const auto* values = std::get_if<std::vector<double>>(&column.values))
      writer.write_array(column.path, std::span(*values));
  }
  writer.write_attributes(content.attributes);
  writer.commit();
}

}  // namespace vaecf::io
