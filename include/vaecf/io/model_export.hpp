#pragma once

#include <vaecf/io/atomic_file.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

/// Tensor files for other programs: safetensors and ONNX. Tensors are little-endian and row-major.
namespace vaecf::io {

/// The element types of exported tensors.
enum class TensorType { float32, int64, uint8, float64, int32 };

/// Tensor to be exported. `write` must write exactly bytes() bytes to the file, little-endian and row-major.
struct ExportTensor {
  std::string name;
  TensorType type = TensorType::float32;
  std::vector<std::int64_t> shape;
  std::function<void(AtomicOutputFile& file)> write;

  /// Returns the size of the tensor in bytes.
  std::int64_t bytes() const;
};

/// Writes a safetensors file (github.com/huggingface/safetensors) atomically: the length of the header in 8
/// bytes, the header as JSON, then the tensors in order. Throws RunError if the disk is full or not writable.
void write_safetensors(const std::string& path, const std::map<std::string, std::string>& metadata,
                       const std::vector<ExportTensor>& tensors);

/// Node of an ONNX graph with one output. Inputs and output are names of values, inputs or initializers.
struct OnnxNode {
  std::string op;  ///< operator of the default domain, e.g. "Gemm"
  std::vector<std::string> inputs;
  std::string output;
  std::map<std::string, std::int64_t> attributes;
};

/// Input or output of a model. The dimensions are integers or symbolic names.
struct OnnxValue {
  std::string name;
  TensorType type = TensorType::float32;
  std::vector<std::string> shape;
};

/// ONNX model with one graph. Nodes must be in topological order.
struct OnnxModel {
  std::string name;
  std::string description;
  std::vector<OnnxNode> nodes;
  std::vector<ExportTensor> initializers;
  std::vector<OnnxValue> inputs;
  std::vector<OnnxValue> outputs;
  std::map<std::string, std::string> metadata;
};

/// Writes the model with opset 13, atomically and without holding the initializers in memory. Throws
/// InputError if the file would exceed protobuf's limit of 2 GiB; throws RunError if the disk is full or not
/// writable.
void write_onnx(const std::string& path, const OnnxModel& model);

}  // namespace vaecf::io
