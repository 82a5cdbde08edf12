#include <vaecf/base/format.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/dataset_file.hpp>

#include "app/commands.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace vaecf::app {
namespace {

enum class Kind { dataset, checkpoint };

/// By where the HDF5 signature stands: at 0 in a dataset, behind the 512-byte user block in a checkpoint.
Kind kind_of(const std::string& path) {
  constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
  if (std::filesystem::is_directory(path))
    throw InputError(format("{} is a folder: give an HDF5 file", path));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(format("cannot read {}: {}", path, std::strerror(errno)));
  std::array<char, 512 + signature.size()> head{};
  file.read(head.data(), head.size());
  const std::string_view seen(head.data(), static_cast<std::size_t>(file.gcount()));
  if (seen.starts_with(signature)) return Kind::dataset;
  if (seen.size() == head.size() && seen.ends_with(signature)) return Kind::checkpoint;
  throw InputError(
      format("{} is neither a dataset nor a checkpoint: it is not an HDF5 file, or it is damaged", path));
}

std::string text_of(const io::Attribute& attribute) {
  if (const auto* number = std::get_if<std::int64_t>(&attribute)) return format("{}", *number);
  if (const auto* number = std::get_if<double>(&attribute)) return format("{}", *number);
  if (const auto* list = std::get_if<std::vector<double>>(&attribute)) {
    std::string text;
    for (const double number : *list) text += format("{}{}", text.empty() ? "" : ", ", number);
    return text;
  }
  return std::get<std::string>(attribute);
}

/// Attributes line by line; a text of several lines (the configuration) stands indented below its name.
std::string attributes_text(const io::Attributes& attributes) {
  std::string out = "attributes\n";
  for (const auto& [name, value] : attributes) {
    std::string text = text_of(value);
    if (text.find('\n') == std::string::npos) {
      out += format("  {}: {}\n", name, text);
      continue;
    }
    out += format("  {}:\n", name);
    for (std::size_t begin = 0; begin < text.size();) {
      const auto end = std::min(text.find('\n', begin), text.size());
      out += format("    {}\n", text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return out;
}

std::string describe_dataset(const std::string& path) {
  const io::DatasetFile file(path);
  std::string out = format("dataset {}\n  items: {}\n", path, file.items());
  out += format("  {:<22}{:>12}{:>15}{:>10}\n", "", "users", "interactions", "mean");
  for (const char* matrix :
       {"train", "validation/fold_in", "validation/held_out", "test/fold_in", "test/held_out"}) {
    const std::int64_t rows = file.rows(matrix);
    const std::int64_t entries = file.entries(matrix);
    const double mean = rows > 0 ? static_cast<double>(entries) / static_cast<double>(rows) : 0.0;
    out += format("  {:<22}{:>12}{:>15}{:>10.1f}\n", matrix, rows, entries, mean);
  }
  return out + attributes_text(file.attributes());
}

std::string describe_checkpoint(const std::string& path) {
  const io::CheckpointFile file(path);
  std::string out = format("checkpoint {}: whole, its checksum is right\ntensors\n", path);
  std::int64_t weights = 0;
  for (const auto& tensor : file.tensors()) {
    out += format("  {:<44}{:>10} x {}\n", tensor.name, tensor.rows, tensor.columns);
    if (tensor.name.starts_with("weights/")) weights += tensor.rows * tensor.columns;
  }
  return out + format("  {} weights\n", weights) + attributes_text(file.attributes());
}

}  // namespace

void run_inspect(const CommandLine& line) {
  const bool dataset = kind_of(line.subject) == Kind::dataset;
  print(dataset ? describe_dataset(line.subject) : describe_checkpoint(line.subject));
}

}  // namespace vaecf::app
