#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/tensor_files.hpp>

#include <limits>
#include <string_view>

namespace vaecf::io {
namespace {

// Protobuf's wire format: a field is its number and wire type, then a varint (type 0), or a length and so
// many bytes (type 2): texts and messages. Numbers and names are those of onnx.proto (opset 13, IR 7).

void add_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}

void add_number(std::string& out, int field, std::int64_t value) {
  add_varint(out, static_cast<std::uint64_t>(field) << 3);
  add_varint(out, static_cast<std::uint64_t>(value));
}

/// Begins a field of `size` bytes, which follow.
void add_head(std::string& out, int field, std::int64_t size) {
  add_varint(out, (static_cast<std::uint64_t>(field) << 3) | 2);
  add_varint(out, static_cast<std::uint64_t>(size));
}

void add_bytes(std::string& out, int field, std::string_view bytes) {
  add_head(out, field, static_cast<std::int64_t>(bytes.size()));
  out += bytes;
}

int type_number(TensorType type) {
  constexpr int numbers[] = {1, 7, 2};  // TensorProto.FLOAT, INT64, UINT8
  return numbers[static_cast<int>(type)];
}

std::string node_message(const OnnxNode& node) {
  std::string out;
  for (const auto& input : node.inputs) add_bytes(out, 1, input);
  add_bytes(out, 2, node.output);
  add_bytes(out, 3, node.output);  // its name
  add_bytes(out, 4, node.op);
  for (const auto& [name, value] : node.attributes) {
    std::string attribute;
    add_bytes(attribute, 1, name);
    add_number(attribute, 3, value);
    add_number(attribute, 20, 2);  // AttributeProto.INT
    add_bytes(out, 5, attribute);
  }
  return out;
}

std::string value_message(const OnnxValue& value) {
  std::string shape;
  for (const std::string& size : value.shape) {
    std::string dimension;
    if (size.find_first_not_of("0123456789") == std::string::npos)
      add_number(dimension, 1, std::stoll(size));
    else
      add_bytes(dimension, 2, size);
    add_bytes(shape, 1, dimension);
  }
  std::string tensor;
  add_number(tensor, 1, type_number(value.type));
  add_bytes(tensor, 2, shape);
  std::string type;
  add_bytes(type, 1, tensor);
  std::string out;
  add_bytes(out, 1, value.name);
  add_bytes(out, 2, type);
  return out;
}

/// All of a TensorProto but its data, whose head comes last.
std::string tensor_head(const OutgoingTensor& tensor) {
  std::string out;
  for (const std::int64_t size : tensor.shape) add_number(out, 1, size);
  add_number(out, 2, type_number(tensor.type));
  add_bytes(out, 8, tensor.name);
  add_head(out, 9, tensor.bytes());
  return out;
}

}  // namespace

void write_onnx(const std::string& path, const OnnxModel& model) {
  std::string graph;
  for (const OnnxNode& node : model.nodes) add_bytes(graph, 1, node_message(node));
  add_bytes(graph, 2, model.name);
  for (const OnnxValue& value : model.inputs) add_bytes(graph, 11, value_message(value));
  for (const OnnxValue& value : model.outputs) add_bytes(graph, 12, value_message(value));
  std::vector<std::string> heads;
  auto graph_size = static_cast<std::int64_t>(graph.size());
  for (const OutgoingTensor& tensor : model.initializers) {
    const std::string head = tensor_head(tensor);
    std::string& field = heads.emplace_back();
    add_head(field, 5, static_cast<std::int64_t>(head.size()) + tensor.bytes());
    field += head;
    graph_size += static_cast<std::int64_t>(field.size()) + tensor.bytes();
  }
  std::string start;
  add_number(start, 1, 7);  // ir_version
  add_bytes(start, 2, "vaecf_dist");
  add_bytes(start, 6, model.description);
  std::string opset;
  add_bytes(opset, 1, "");
  add_number(opset, 2, 13);
  add_bytes(start, 8, opset);
  for (const auto& [key, value] : model.metadata) {
    std::string entry;
    add_bytes(entry, 1, key);
    add_bytes(entry, 2, value);
    add_bytes(start, 14, entry);
  }
  add_head(start, 7, graph_size);
  if (static_cast<std::int64_t>(start.size()) + graph_size > std::numeric_limits<std::int32_t>::max()) {
    throw InputError(
        format("{}: an ONNX file holds at most 2 GiB, and this model has {} bytes of weights; "
               "export it as .safetensors",
               path, graph_size));
  }
  OutputFile file(path);
  file.write(start);
  file.write(graph);
  for (std::size_t i = 0; i < heads.size(); ++i) {
    file.write(heads[i]);
    model.initializers[i].write(file);
  }
  file.commit();
}

}  // namespace vaecf::io
