#pragma once

#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

/// Tensor files for other programs: safetensors and ONNX. Tensors are little-endian and row-major.
namespace vaecf::io {

enum class TensorType { float32, int64, uint8, float64, int32 };

/// Tensor to be exported. `write` must write exactly bytes() bytes to the file, little-endian and row-major.
struct ExportTensor {
  std::string name;
  TensorType type = TensorType::float32;
  std::vector<std::int64_t> shape;
  std::function<void(AtomicOutputFile& file)> write;

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
  std::map<std::string, std::variant<std::int64_t, std::string>> attributes;
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
  std::int64_t opset = 13;
  std::vector<OnnxNode> nodes;
  std::vector<ExportTensor> initializers;
  std::vector<OnnxValue> inputs;
  std::vector<OnnxValue> outputs;
  std::map<std::string, std::string> metadata;
};

/// Writes the model atomically and without holding the initializers in memory. Throws InputError if the file
/// would exceed protobuf's limit of 2 GiB; throws RunError if the disk is full or not writable.
void write_onnx(const std::string& path, const OnnxModel& model);

/// Contents of a file of lists except the lists, for N users, I items, k places in a list and R reasons per
/// place. Instead of users, the lists may be those of the most similar items of N items.
struct RecommendationHeader {
  IdList users;        ///< (N) ids, in the order of append()
  IdList items;        ///< (I) ids; /item_index contains indices into them
  IdList titles;       ///< (I) titles of the items, or empty
  std::int64_t k = 0;  ///< recommendations per user
  Attributes attributes;
  std::int64_t reasons = 0;                   ///< reasons per recommendation; 0: none
  std::vector<std::int32_t> similar_to = {};  ///< (N) for lists of similar items: the items that they are of
};

/// Writes lists to an HDF5 file, block by block and atomically. Datasets: /user_id (N), /item_id (I),
/// /item_title (I) if there are titles, /item_index int32 (N,k), indices of items, best first and padded with
/// -1, /score float32 (N,k), and /popular uint8 (N), which is 1 for users who are recommended the most
/// popular items (their scores are NaN). With reasons also /because_index int32 (N,k,R), indices of the
/// user's items with the largest contributions, padded with -1, and /contributions float32 (N,k,R), padded
/// with NaN. Lists of similar items have no users and reasons: /item_index (N) has the items, and
/// /similar_index (N,k) those similar to them. The file is temporary until commit() renames it to `path`;
/// destruction without commit() removes it. All functions throw RunError if the disk is full or not
/// writable.
class RecommendationWriter {
 public:
  /// Creates the temporary file in the folder of `path`, and writes the ids and titles.
  RecommendationWriter(const std::string& path, const RecommendationHeader& header);
  ~RecommendationWriter();

  /// Appends the next users. `items` and `scores`: (rows, k), row-major; `popular`: (rows); `because` and
  /// `contributions`: (rows, k, R). The sum of all rows must not exceed N.
  void append(std::span<const std::int32_t> items, std::span<const float> scores,
              std::span<const std::uint8_t> popular, std::span<const std::int32_t> because = {},
              std::span<const float> contributions = {});
  /// Writes the attributes, and renames the file to `path`. All N users must have been appended; this is not
  /// checked.
  void commit();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

/// The lists in a file of RecommendationWriter, for N users.
struct RecommendedLists {
  IdList users;                      ///< (N)
  IdList items;                      ///< (I)
  std::vector<std::int32_t> places;  ///< (N, k) indices of items, best first; -1: none
};

/// Reads a file of RecommendationWriter. Throws InputError if it is not such a file.
RecommendedLists read_recommendations(const std::string& path);

/// Values of some users, one per user in each column.
struct UserColumns {
  struct Column {
    std::string path;  ///< path of the dataset in the file: "history", "popularity/ndcg@100"
    std::variant<std::vector<std::int64_t>, std::vector<double>, IdList> values;
  };
  IdList users;
  std::vector<Column> columns;
  Attributes attributes;
};

/// Writes an HDF5 file with /user_id and one dataset per column, atomically. Replaces an existing file.
/// Throws RunError if the disk is full or not writable.
void write_user_columns(const std::string& path, const UserColumns& content);

}  // namespace vaecf::io
