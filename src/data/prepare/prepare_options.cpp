#include <vaecf/base/error.hpp>
#include <vaecf/data/prepare_options.hpp>

#include <algorithm>
#include <filesystem>

#include "data/features/feature_table.hpp"
#include "data/source/source_formats.hpp"

namespace vaecf::data {
namespace {

// Returns whether `path` is a file that is read whole, so that data.source.file and the like have no effect.
bool is_one_file(const std::string& path) {
  return std::filesystem::is_regular_file(path) && !io::is_archive(path);
}

}  // namespace

bool prepare_uses(std::string_view key, const SourceOptions& source, const PrepareOptions& options) {
  using enum SplitMethod;
  const SplitMethod split = options.split;
  const auto option = key.substr(key.rfind('.') + 1);
  for (const FeatureTableOptions& table : {source.users, source.items}) {
    const bool of_users = table.of == TableOf::users;
    if (!key.starts_with(format("{}.", words_of(table.of).section))) continue;
    const bool features = of_users ? !options.features.empty() : !options.item_features.empty();
    if (option == "value_separator") return features;
    return (features || (!of_users && reads_items(source, options))) &&
           (option != "file" || !(table.path.empty() || is_one_file(table.path)));
  }
  if (option == "feature_hashes" || option == "feature_buckets")
    return !options.features.empty() || !options.item_features.empty();
  if (option == "validation_path" || option == "test_path") {
    const std::int64_t users = option == "test_path" ? options.test_users : options.validation_users;
    return split == given && users != 0 && format_of(source).parts == PartFiles::separate;
  }
  if (key == "data.source.file" && (reads_standard_input(source) || is_one_file(source.path))) return false;
  if (key.starts_with("data.source.")) {
    const auto uses = [&](const SourceFormat& format) {
      return std::ranges::find(format.options, option) != format.options.end();
    };
    return std::ranges::none_of(formats(), uses) || uses(format_of(source));
  }
  if (option == "min_rating") return has_ratings(source);
  if (option == "repeat_filters") return split != given && options.min_item_users > 0;
  if (option == "min_user_items" || option == "min_item_users") return split != given;
  if (option == "seed") return format_of(source).parts != PartFiles::same;  // the order of the users
  if (option == "held_out_fraction")
    return split == liang2018 || split == SplitMethod::random || split == stable || split == ratio;
  if (option == "validation_fraction" || option == "test_fraction") return split == stable;
  if (option == "held_out") return split == leave_one_out || split == ratio;
  if (option == "time_quantiles" || option == "dates") return split == SplitMethod::time;
  return true;
}

}  // namespace vaecf::data
