#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/dataset_file.hpp>

#include "app/commands.hpp"
#include "app/inspect/inspect.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string_view>
#include <system_error>

namespace vaecf::app {
namespace {

bool is_run(const std::string& path) {
  const std::filesystem::path subject(path);
  return subject.extension() == ".jsonl" || std::filesystem::exists(subject / "metrics.jsonl");
}

enum class Kind { dataset, checkpoint };

/// By where the HDF5 signature stands: at 0 in a dataset, behind the 512-byte user block in a checkpoint.
Kind kind_of(const std::string& path) {
  constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
  if (std::filesystem::is_directory(path))
    throw InputError(
        format("{} is a folder without metrics.jsonl: give an HDF5 file or the folder of a run", path));
  std::error_code missing;
  if (std::filesystem::exists(path, missing) && !std::filesystem::is_regular_file(path))
    throw InputError(format("{}: is not a regular file: give an HDF5 file or the folder of a run", path));
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

/// A text of several lines stands indented below its name.
std::string attributes_text(const io::Attributes& attributes) {
  std::string out = "attributes\n";
  for (const auto& [name, value] : attributes) {
    std::string text = " " + text_of(value);
    if (text.find('\n') != std::string::npos) text[0] = '\n';
    for (auto at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 5)) {
      text.replace(at, 1, "\n    ");
    }
    out += format("  {}:{}\n", name, text);
  }
  return out;
}

/// Sizes, density, how many items users have and users items, where it came from.
std::string describe_dataset(const std::string& path) {
  const io::DatasetFile file(path);
  std::string out = format("dataset {}\n  items: {}\n", path, file.items());
  const std::int64_t level = file.compression();
  if (level > 0) out += format("  compression: shuffle, deflate {}\n", level);
  out += format("  {:<22}{:>12}{:>15}{:>10}{:>12}\n", "", "users", "interactions", "mean", "density");
  constexpr std::array matrices = {"train", "validation/fold_in", "validation/held_out", "test/fold_in",
                                   "test/held_out"};
  for (const char* matrix : matrices) {
    const std::int64_t rows = file.rows(matrix);
    const auto entries = static_cast<double>(file.entries(matrix));
    const double mean = rows > 0 ? entries / static_cast<double>(rows) : 0.0;
    const double density = file.items() > 0 ? 100.0 * mean / static_cast<double>(file.items()) : 0.0;
    out += format("  {:<22}{:>12}{:>15}{:>10.1f}{:>10.4f} %\n", matrix, rows, file.entries(matrix), mean,
                  density);
  }
  if (file.features() > 0) {
    out += format("  features of users: {}\n", file.features());
    out += format("  {:<22}{:>12}{:>15}{:>10}\n", "", "users", "features", "mean");
    for (const char* matrix : {"train/features", "validation/features", "test/features"}) {
      const auto users = static_cast<double>(std::max<std::int64_t>(1, file.rows(matrix)));
      out += format("  {:<22}{:>12}{:>15}{:>10.1f}\n", matrix, file.rows(matrix), file.entries(matrix),
                    static_cast<double>(file.entries(matrix)) / users);
    }
  }
  std::vector<std::int64_t> of_users;
  std::vector<std::int64_t> of_items(static_cast<std::size_t>(file.items()));
  constexpr std::int64_t block_rows = 1 << 14;
  for (std::int64_t begin = 0; begin < file.rows("train"); begin += block_rows) {
    const Csr block = file.read_rows("train", {begin, std::min(file.rows("train"), begin + block_rows)});
    for (std::int64_t row = 0; row < block.rows(); ++row) of_users.push_back(block.view().row_size(row));
    for (const std::int32_t item : block.columns) ++of_items[static_cast<std::size_t>(item)];
  }
  out += format("items of a train user\n{}", histogram_text(of_users));
  out += format("train users of an item\n{}", histogram_text(of_items));
  out += format("checksum: {}\n", file.fingerprint());
  return out + attributes_text(file.attributes());
}

/// How far it is, what it holds; `verbose` also its configuration and every attribute and tensor.
std::string describe_checkpoint(const std::string& path, bool verbose) {
  const io::CheckpointFile file(path);
  const auto text = [&](const char* name) {
    const auto found = file.attributes().find(name);
    return found == file.attributes().end() ? std::string("unknown") : text_of(found->second);
  };
  std::string out = format("checkpoint {}: whole, its checksum is right\n", path);
  out += format("  model: {}, hidden layers [{}], latent {}, {} items\n", text("model_type"),
                text("model_hidden"), text("model_latent"), text("items"));
  out += format("  trained: {} epochs, {} steps, and {} steps of the next epoch; {} users seen\n",
                text("epoch"), text("step"), text("step_in_epoch"), text("users_seen"));
  out += text("select") == "last" ? std::string("  best: whichever epoch is the last\n")
                                  : format("  best so far: {} {} in epoch {}\n", text("select"),
                                           text("best_metric"), text("best_epoch"));
  out += format("  dataset checksum: {}\ntensors\n", text("dataset_checksum"));
  std::int64_t weights = 0;
  std::int64_t others = 0;
  for (const auto& tensor : file.tensors()) {
    const bool weight = tensor.name.starts_with("weights/");
    (weight ? weights : others) += tensor.rows * tensor.columns;
    if (weight || verbose) {
      out += format("  {:<44}{:>10} x {}\n", tensor.name, tensor.rows, tensor.columns);
    }
  }
  out += format("  {} weights, {} numbers of the optimizer's state\n", weights, others);
  return out + (verbose ? attributes_text(file.attributes())
                        : "-v shows all tensors, all attributes and the configuration\n");
}

/// Class of a count: 0, 1, 2-3, 4-7, ...
std::size_t class_of(std::int64_t count) {
  return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(count)));
}

}  // namespace

std::string histogram_text(std::vector<std::int64_t>& counts) {
  if (counts.empty()) return "";
  std::ranges::sort(counts);
  const auto quantile = [&](double share) {
    return counts[static_cast<std::size_t>(std::lround(share * static_cast<double>(counts.size() - 1)))];
  };
  const double mean = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})) /
                      static_cast<double>(counts.size());
  std::string out =
      format("  min {}, 10 % {}, 25 % {}, median {}, 75 % {}, 90 % {}, 99 % {}, max {}; mean {:.1f}\n",
             counts.front(), quantile(0.1), quantile(0.25), quantile(0.5), quantile(0.75), quantile(0.9),
             quantile(0.99), counts.back(), mean);
  std::array<std::int64_t, 65> sizes{};
  for (const std::int64_t count : counts) ++sizes[class_of(count)];
  const std::int64_t largest = *std::ranges::max_element(sizes);
  for (std::size_t c = class_of(counts.front()); c <= class_of(counts.back()); ++c) {
    const std::string name =
        c <= 1 ? format("{}", c) : format("{} - {}", std::int64_t{1} << (c - 1), (std::int64_t{1} << c) - 1);
    constexpr std::int64_t bar_width = 40;
    const std::int64_t bar = (sizes[c] * bar_width + largest - 1) / largest;  // what is there is seen
    out += format("  {:>17} {:>10} {:#>{}}\n", name, sizes[c], "", bar);
  }
  return out;
}

void run_inspect(const CommandLine& line) {
  if (is_run(line.subject)) return print(describe_run(line.subject, line.metric));
  if (!line.metric.empty()) {
    throw InputError(
        format("--metric is for a run: {} is no folder of one and no .jsonl file", line.subject));
  }
  const bool dataset = kind_of(line.subject) == Kind::dataset;
  print(dataset ? describe_dataset(line.subject)
                : describe_checkpoint(line.subject, line.verbosity == Verbosity::verbose));
}

}  // namespace vaecf::app
