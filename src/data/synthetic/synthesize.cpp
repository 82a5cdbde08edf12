#include <vaecf/base/error.hpp>
#include <vaecf/data/feature_hashing.hpp>
#include <vaecf/data/synthesize.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <numbers>

#include "data/synthetic/taste_model.hpp"

namespace vaecf::data {
namespace {

constexpr std::int64_t min_interactions = 5;  // so that a fifth of them is at least one target
constexpr std::int64_t min_items_per_taste = 40;
constexpr int max_user_columns = 64;

constexpr double missing_share = 0.05;
constexpr double other_share = 0.15;

// Streams of the columns count down from here; user indices are smaller.
constexpr std::uint32_t first_stream = 0xFFFFFFFDu;

std::pair<std::string, std::int32_t> kind_of(std::size_t column) {
  constexpr std::array<std::pair<const char*, std::int32_t>, 4> known{
      {{"country", 24}, {"age", 7}, {"occupation", 21}, {"gender", 2}}};
  constexpr std::array<std::int32_t, 4> others{12, 60, 5, 30};
  if (column < known.size()) return {known[column].first, known[column].second};
  return {"column_" + std::to_string(column + 1), others[column % others.size()]};
}

/// Attributes of synthetic users: country, age, occupation, gender, then column_5 and so on, with 2 to 60
/// values each. A value is associated with one of the user's tastes, sampled by weight, but 15 % of the
/// values are random and 5 % are missing. A column is therefore informative, but never determines the user's
/// tastes.
class SyntheticUserAttributes {
 public:
  SyntheticUserAttributes(int columns, int tastes, std::uint64_t seed) : drawn_(columns) {
    std::vector<FeatureColumn> layout;
    std::vector<std::int32_t> order(tastes);
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t c = 0; c < drawn_.size(); ++c) {
      const auto [name, values] = kind_of(c);
      const auto stream = first_stream - static_cast<std::uint32_t>(c);
      PhiloxStream(seed, stream, PhiloxStream::synthesis_step).shuffle(std::span(order));
      Column column{values, std::vector<std::int32_t>(order.size())};
      for (std::size_t i = 0; i < order.size(); ++i)
        column.of_taste[order[i]] = static_cast<std::int32_t>(i) % values;
      columns_.push_back(std::move(column));
      layout.push_back({name, FeatureColumn().hashes, FeatureHashing::default_buckets(values)});
    }
    hashing_ = FeatureHashing(std::move(layout));
  }

  const FeatureHashing& hashing() const { return hashing_; }
  /// Samples one value per column, empty if missing.
  const std::vector<std::string>& draw_user(PhiloxStream& random, const TasteModel::Mixture& tastes) {
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const double chance = random.uniform();
      if (chance < missing_share) {
        drawn_[c].clear();
        continue;
      }
      const auto any =
          static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(columns_[c].values)));
      const std::int32_t own = columns_[c].of_taste[tastes.draw(random)];
      drawn_[c] = std::to_string(1 + (chance < missing_share + other_share ? any : own));
    }
    return drawn_;
  }

 private:
  struct Column {
    std::int32_t values = 0;
    std::vector<std::int32_t> of_taste;  // value associated with each taste
  };
  std::vector<Column> columns_;
  FeatureHashing hashing_;
  std::vector<std::string> drawn_;
};

struct Sizes {
  std::int64_t train = 0;
  std::int64_t validation = 0;
  std::int64_t test = 0;
  int tastes = 0;
};

Sizes check_sizes(const SynthesizeOptions& options) {
  constexpr std::int64_t max_count = std::numeric_limits<std::int32_t>::max();
  if (options.users < 1 || options.users > max_count)
    throw InputError(format("users must be between 1 and {}, got {}", max_count, options.users));
  if (options.items < 2 * min_interactions || options.items > max_count) {
    throw InputError(format(
        "items must be between {} and {}, got {}; every user gets at least {} of them and at most half",
        2 * min_interactions, max_count, options.items, min_interactions));
  }
  const double mean = options.interactions_per_user;
  if (!(mean >= min_interactions && mean <= static_cast<double>(options.items) / 2)) {
    throw InputError(
        format("interactions-per-user must be at least {} and at most half of the {} items, got {}",
               min_interactions, options.items, mean));
  }
  if (options.tastes < 1) throw InputError(format("tastes must be at least 1, got {}", options.tastes));
  if (options.user_columns < 0 || options.user_columns > max_user_columns) {
    throw InputError(
        format("user-columns must be between 0 and {}, got {}", max_user_columns, options.user_columns));
  }
  if (options.validation_users < -1 || options.test_users < -1) {
    throw InputError(
        "validation and test users must not be negative; omit them to use a tenth of the users each");
  }
  const std::int64_t tenth = std::min<std::int64_t>(options.users / 10, 10000);
  Sizes sizes;
  sizes.validation = options.validation_users < 0 ? tenth : options.validation_users;
  sizes.test = options.test_users < 0 ? tenth : options.test_users;
  if (std::max(sizes.validation, sizes.test) >= options.users ||
      sizes.validation + sizes.test >= options.users) {
    throw InputError(format(
        "{} validation and {} test users leave none of the {} users to train on; create more users, or hold out fewer",
        sizes.validation, sizes.test, options.users));
  }
  sizes.train = options.users - sizes.validation - sizes.test;
  sizes.tastes =
      static_cast<int>(std::clamp<std::int64_t>(options.items / min_items_per_taste, 1, options.tastes));
  return sizes;
}

// Samples the number of interactions: the minimum plus a log-normal value that gives the requested mean, at
// most half of the items.
std::int64_t draw_count(PhiloxStream& random, const SynthesizeOptions& options) {
  constexpr double spread = 1.0;
  const double above = options.interactions_per_user - static_cast<double>(min_interactions);
  const double radius = std::sqrt(-2 * std::log(random.uniform()));
  const double normal = radius * std::cos(2 * std::numbers::pi * random.uniform());
  const double drawn = above * std::exp(spread * normal - spread * spread / 2);
  const double max_count = static_cast<double>(options.items / 2);
  return static_cast<std::int64_t>(
      std::min(max_count, static_cast<double>(min_interactions) + std::round(drawn)));
}

void write_header(io::DatasetWriter& writer, const SynthesizeOptions& options, const Sizes& sizes,
                  const std::string& output) {
  const io::Attributes attributes{
      {"name", std::filesystem::path(output).stem().string()},
      {"users", options.users},
      {"items", options.items},
      {"source", std::string("synthesize")},
      {"interactions_per_user", options.interactions_per_user},
      {"seed", static_cast<std::int64_t>(options.seed)},
      {"validation_users", sizes.validation},
      {"test_users", sizes.test},
      {"tastes", std::int64_t{sizes.tastes}},
  };
  for (const auto& [key, value] : attributes) writer.set_attribute(key, value);
  writer.write_ids("items/id", io::numbers_from(1, options.items));
  writer.write_ids("train/user_id", io::numbers_from(1, sizes.train));
  writer.write_ids("validation/user_id", io::numbers_from(1 + sizes.train, sizes.validation));
  writer.write_ids("test/user_id", io::numbers_from(1 + sizes.train + sizes.validation, sizes.test));
}

void append_held_out(io::DatasetWriter& writer, const std::string& part, PhiloxStream& random,
                     std::span<std::int32_t> row) {
  random.shuffle(row);
  const auto targets = row.first(row.size() / 5);
  const auto fold_in = row.subspan(targets.size());
  std::sort(targets.begin(), targets.end());
  std::sort(fold_in.begin(), fold_in.end());
  writer.append_row(part + "/fold_in", fold_in);
  writer.append_row(part + "/held_out", targets);
}

}  // namespace

void synthesize(const SynthesizeOptions& options, const std::string& output, Log& log, Progress& progress) {
  const Sizes sizes = check_sizes(options);
  if (sizes.tastes < options.tastes)
    log.info("{} items allow only {} tastes, not {}", options.items, sizes.tastes, options.tastes);
  io::check_replaceable(output, options.replace);
  io::DatasetWriter writer(output, options.compression);
  write_header(writer, options, sizes, output);

  TasteModel model(options.items, sizes.tastes, options.seed);
  SyntheticUserAttributes attributes(options.user_columns, sizes.tastes, options.seed);
  if (options.user_columns > 0) {
    writer.set_attribute("user_columns", std::int64_t{options.user_columns});
    writer.set_attribute("user_features", attributes.hashing().features());
    writer.set_attribute("feature_hashing", attributes.hashing().to_string());
  }
  std::vector<std::int32_t> row;
  std::int64_t interactions = 0;
  progress.begin("creating users", options.users, "users");
  for (std::int64_t user = 0; user < options.users; ++user) {
    PhiloxStream random(options.seed, static_cast<std::uint32_t>(user), PhiloxStream::synthesis_step);
    const std::int64_t count = draw_count(random, options);
    const TasteModel::Mixture tastes = model.draw_user(random, count, row);
    interactions += static_cast<std::int64_t>(row.size());
    const std::string part = user < sizes.train                      ? "train"
                             : user < sizes.train + sizes.validation ? "validation"
                                                                     : "test";
    if (part == "train") {
      std::sort(row.begin(), row.end());
      writer.append_row("train", row);
    } else {
      append_held_out(writer, part, random, row);
    }
    if (options.user_columns > 0) {
      PhiloxStream attribute_random(options.seed, static_cast<std::uint32_t>(user),
                                    PhiloxStream::user_columns_step);
      writer.append_row(part + "/user_features",
                        attributes.hashing().row(attributes.draw_user(attribute_random, tastes)));
    }
    progress.update(user + 1);
  }
  progress.end();
  writer.set_attribute("interactions", interactions);
  writer.commit();
  log.info("{}: {} users ({} to train on, {} validation, {} test), {} items, {} interactions", output,
           options.users, sizes.train, sizes.validation, sizes.test, options.items, interactions);
}

}  // namespace vaecf::data
