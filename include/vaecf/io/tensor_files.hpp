#pragma once

#include <vaecf/io/output_file.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

/// Files of tensors that other programs read. Little-endian, row-major.
namespace vaecf::io {

enum class TensorType { float32, int64, uint8 };

/// A tensor on its way into a file: `write` writes all of its bytes.
struct OutgoingTensor {
  std::string name;
  TensorType type = TensorType::float32;
  std::vector<std::int64_t> shape;
  std::function<void(OutputFile& file)> write;

  std::int64_t bytes() const;
};

/// Writes a safetensors file, streaming: the header's length in 8 bytes, the header in JSON, the tensors one
/// behind the other (github.com/huggingface/safetensors). RunError where the disk is full or not writable.
void write_safetensors(const std::string& path, const std::map<std::string, std::string>& metadata,
                       const std::vector<OutgoingTensor>& tensors);

struct OnnxNode {
  std::string op;
  std::vector<std::string> inputs;
  std::string output;
  std::map<std::string, std::int64_t> attributes;
};

/// An input or output: dimensions are numbers or names.
struct OnnxValue {
  std::string name;
  TensorType type = TensorType::float32;
  std::vector<std::string> shape;
};

struct OnnxModel {
  std::string name;
  std::string description;
  std::vector<OnnxNode> nodes;
  std::vector<OutgoingTensor> initializers;
  std::vector<OnnxValue> inputs;
  std::vector<OnnxValue> outputs;
  std::map<std::string, std::string> metadata;
};

/// Writes the model with opset 13, streaming the initialisers. InputError beyond the 2 GiB that protobuf
/// holds; RunError where the disk is full or not writable.
void write_onnx(const std::string& path, const OnnxModel& model);

}  // namespace vaecf::io
