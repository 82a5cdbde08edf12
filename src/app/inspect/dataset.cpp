#include <vaecf/base/format.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <algorithm>
#include <array>
#include <vector>

#include "app/inspect/describe.hpp"
#include "app/inspect/text_plot.hpp"

namespace vaecf::app {
namespace {

constexpr std::int64_t block_rows = 1 << 14;

/// A text of several lines stands indented below its name.
std::string attributes_text(const io::Attributes& attributes) {
  std::string out = "attributes\n";
  for (const auto& [name, value] : attributes) {
    std::string text = text_of(value);
    for (auto at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 5)) {
      text.replace(at, 1, "\n    ");
    }
    out += format("  {}: {}\n", name, text);
  }
  return out;
}

struct Counts {
  std::vector<std::int64_t> of_users;
  std::vector<std::int64_t> of_items;
};

Counts count_train(const io::DatasetFile& file) {
  Counts counts;
  counts.of_items.resize(static_cast<std::size_t>(file.items()));
  const std::int64_t rows = file.rows("train");
  counts.of_users.reserve(static_cast<std::size_t>(rows));
  for (std::int64_t begin = 0; begin < rows; begin += block_rows) {
    const Csr block = file.read_rows("train", {begin, std::min(rows, begin + block_rows)});
    for (std::int64_t row = 0; row < block.rows(); ++row) {
      counts.of_users.push_back(block.view().row_size(row));
    }
    for (const std::int32_t item : block.columns) ++counts.of_items[static_cast<std::size_t>(item)];
  }
  return counts;
}

}  // namespace

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
  Counts counts = count_train(file);
  out += format("items of a train user\n{}", histogram_text(counts.of_users, 2));
  out += format("train users of an item\n{}", histogram_text(counts.of_items, 2));
  out += format("checksum: {}\n", file.fingerprint());
  return out + attributes_text(file.attributes());
}

}  // namespace vaecf::app
