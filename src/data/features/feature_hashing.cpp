#include <vaecf/base/error.hpp>
#include <vaecf/base/text.hpp>
#include <vaecf/data/feature_hashing.hpp>
#include <vaecf/io/hash.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

namespace vaecf::data {
namespace {

constexpr std::string_view heading = "xxh64 1";
constexpr std::int64_t max_features = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t max_hashes = 16;
constexpr std::size_t max_feature_columns = 4096;

[[noreturn]] void refuse(std::string_view why) {
  throw InputError(format(
      "attribute feature_hashing {}, unlike the output of `vaecf_dist prepare`; create the file again", why));
}

}  // namespace

FeatureHashing::FeatureHashing(std::vector<FeatureColumn> layout) : layout_(std::move(layout)) {
  if (layout_.size() > max_feature_columns) {
    throw InputError(format("the number of feature columns must be at most {}, got {}", max_feature_columns,
                            layout_.size()));
  }
  for (std::size_t c = 0; c < layout_.size(); ++c) {
    const FeatureColumn& column = layout_[c];
    const auto same = [&](const FeatureColumn& other) { return other.name == column.name; };
    if (column.name.empty() || column.name.find_first_of(std::string_view("\n\r\0", 3)) != std::string::npos)
      throw InputError("a feature column must have a name without line breaks");
    if (std::count_if(layout_.begin(), layout_.end(), same) > 1)
      throw InputError(format("feature column '{}' is listed twice; list it once", excerpt(column.name)));
    if (column.hashes < 1 || column.hashes > max_hashes) {
      throw InputError(format("feature column '{}': hashes must be between 1 and {}, got {}",
                              excerpt(column.name), max_hashes, column.hashes));
    }
    if (column.buckets < 1 || column.buckets > (max_features - features_) / column.hashes) {
      throw InputError(format(
          "feature column '{}': buckets must be at least 1, got {}, and hashes x buckets of all columns must be below 2^31",
          excerpt(column.name), column.buckets));
    }
    first_.push_back(features_);
    features_ += column.hashes * column.buckets;
    auto& seeds = seeds_.emplace_back();
    for (std::int64_t j = 0; j < column.hashes; ++j)
      seeds.push_back(io::xxh64(column.name, static_cast<std::uint64_t>(j)));
  }
}

FeatureHashing FeatureHashing::parse(std::string_view text) {
  std::istringstream lines{std::string(text)};
  std::string line;
  if (!std::getline(lines, line) || line != heading) refuse(format("does not start with '{}'", heading));
  std::vector<FeatureColumn> layout;
  while (std::getline(lines, line)) {
    if (layout.size() == max_feature_columns) refuse(format("has more than {} columns", max_feature_columns));
    std::istringstream fields(line);
    FeatureColumn column;
    if (!(fields >> column.hashes >> column.buckets) || fields.get() != ' ')
      refuse("has a line that does not start with two integers");
    std::getline(fields, column.name);
    layout.push_back(std::move(column));
  }
  return FeatureHashing(std::move(layout));
}

std::string FeatureHashing::to_string() const {
  std::string text(heading);
  for (const auto& column : layout_) text += format("\n{} {} {}", column.hashes, column.buckets, column.name);
  return text;
}

std::int64_t FeatureHashing::default_buckets(std::int64_t values) {
  constexpr std::int64_t min_buckets = 16;
  return std::max(min_buckets, values);
}

std::vector<std::string> FeatureHashing::columns() const {
  std::vector<std::string> names;
  for (const FeatureColumn& column : layout_) names.push_back(column.name);
  return names;
}

std::vector<std::int32_t> FeatureHashing::row(std::span<const std::string> values) const {
  if (values.size() != layout_.size()) {
    throw InputError(format("expected one value for each of the {} feature columns of the model, got {}",
                            layout_.size(), values.size()));
  }
  std::vector<std::int32_t> row;
  for (std::size_t c = 0; c < values.size(); ++c) append(c, values[c], row);
  return row;
}

std::vector<std::int32_t> FeatureHashing::features_of(
    const std::vector<std::pair<std::string, std::string>>& values) const {
  std::vector<std::int32_t> features;
  for (const auto& [name, value] : values) {
    if (layout_.empty()) throw InputError("the model has no user features");
    const auto column = std::ranges::find(layout_, name, &FeatureColumn::name);
    if (column == layout_.end()) {
      throw InputError(format("the model reads no column {} of users; its columns are {}", excerpt(name),
                              excerpt(join(columns()))));
    }
    append(static_cast<std::size_t>(column - layout_.begin()), value, features);
  }
  std::ranges::sort(features);
  features.erase(std::unique(features.begin(), features.end()), features.end());
  return features;
}

void FeatureHashing::append(std::size_t index, std::string_view value, std::vector<std::int32_t>& row) const {
  if (value.empty()) return;
  const auto buckets = static_cast<std::uint64_t>(layout_[index].buckets);
  std::int64_t block = first_[index];
  for (const std::uint64_t seed : seeds_[index]) {
    row.push_back(
        static_cast<std::int32_t>(block + static_cast<std::int64_t>(io::xxh64(value, seed) % buckets)));
    block += layout_[index].buckets;
  }
}

}  // namespace vaecf::data
