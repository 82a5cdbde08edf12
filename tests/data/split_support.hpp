#pragma once

#include <filesystem>
#include <map>
#include <numeric>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "data/prepare/filter.hpp"
#include "data/ratings_support.hpp"
#include "data/support.hpp"

namespace vaecf::data::test {

struct HeldOutPart {
  Csr fold_in;
  Csr targets;
  std::int64_t unknown = 0;  ///< dropped events on items that no train user has
  std::int64_t without_target = 0;
};

/// Output of `prepare` for a source. Columns of a row are in file order, as in the paper's files, and ids are
/// strings.
struct SplitRun {
  PrepareReport report;
  /// User and item of every event that the filter keeps, in file order.
  std::vector<std::pair<std::string, std::string>> kept;
  io::IdList users;  ///< by row; train, then held-out users of strong splits
  io::IdList items;
  Csr train;
  HeldOutPart validation;
  HeldOutPart test;
};

inline SplitRun run_split(const SourceOptions& source, const PrepareOptions& options) {
  Log log;
  Progress progress;
  SplitRun run;
  RawRatings ratings = read_ratings(source, make_read_options(options, false), log, progress);
  std::map<std::int64_t, std::pair<std::string, std::string>> kept;
  PrepareReport unused;
  Filter(ratings, options, unused, progress).take_users([&](std::span<const Event> events) {
    for (const Event& e : events)
      kept[e.index] = {ratings.user_ids.text(e.user), ratings.item_ids.text(e.item)};
  });
  std::map<std::pair<std::string, std::string>, std::size_t> order;
  for (const auto& [index, pair] : kept) {
    order.emplace(pair, run.kept.size());
    run.kept.push_back(pair);
  }

  const TempFolder folder;
  run.report = prepare(source, options, "split", folder.path("split.h5"), {}, log, progress);
  const io::DatasetFile file(folder.path("split.h5"));
  run.items = file.read_ids("items/id");
  run.users = file.read_ids("train/user_id");
  const bool strong = options.split == SplitMethod::liang2018 || options.split == SplitMethod::random ||
                      options.split == SplitMethod::time || options.split == SplitMethod::stable ||
                      source.format == "pro_sg";
  const auto rows = [&](const std::string& matrix, std::int64_t first_user) {
    Csr csr = file.read_rows(matrix, {0, file.rows(matrix)});
    for (std::int64_t r = 0; r < csr.rows(); ++r) {
      const std::span row(csr.columns.data() + csr.offsets[static_cast<std::size_t>(r)],
                          static_cast<std::size_t>(csr.view().row_size(r)));
      std::map<std::size_t, std::int32_t> in_order;
      for (const std::int32_t column : row) {
        const auto found = order.find({run.users.text(first_user + r), run.items.text(column)});
        in_order[found == order.end() ? order.size() + in_order.size() : found->second] = column;
      }
      std::ranges::copy(std::views::values(in_order), row.begin());
    }
    return csr;
  };
  run.train = rows("train", 0);
  std::int64_t first_user = strong ? run.users.size() : 0;
  for (auto* const part : {&run.validation, &run.test}) {
    const std::string name = part == &run.test ? "test" : "validation";
    const auto stage = [&](const std::string& text) {
      for (const StageCounts& count : run.report.stages) {
        if (count.stage == name + ": " + text) return count;
      }
      return StageCounts{};
    };
    part->unknown = stage("dropped, no train user has the item").events;
    part->without_target = stage("users without a target").users;
    if (strong && file.has_ids(name + "/user_id")) {
      const io::IdList ids = file.read_ids(name + "/user_id");
      run.users.numbers.insert(run.users.numbers.end(), ids.numbers.begin(), ids.numbers.end());
      run.users.strings.insert(run.users.strings.end(), ids.strings.begin(), ids.strings.end());
    }
    part->fold_in = rows(name + "/fold_in", first_user);
    part->targets = rows(name + "/held_out", first_user);
    if (strong) first_user += part->targets.rows();
  }
  return run;
}

/// Returns the CRC-32 of a part's (row, column) pairs, users by ascending id, file order inside.
inline std::uint32_t pairs_crc(const SplitRun& run, const Csr& rows, std::int64_t first_user) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows.rows()));
  std::iota(order.begin(), order.end(), first_user);
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    const auto at = [](const auto& ids, std::int64_t user) { return ids[static_cast<std::size_t>(user)]; };
    return run.users.numeric() ? at(run.users.numbers, a) < at(run.users.numbers, b)
                               : at(run.users.strings, a) < at(run.users.strings, b);
  });
  std::vector<std::int32_t> pairs;
  for (const std::int64_t user : order) {
    for (const std::int32_t column : rows.view().row(user - first_user)) {
      pairs.push_back(static_cast<std::int32_t>(user));
      pairs.push_back(column);
    }
  }
  return crc32(pairs);
}

/// Returns the CRC-32 of a part's (row, column) pairs, users by row, file order inside.
inline std::uint32_t pairs_crc_by_row(const Csr& rows) {
  std::vector<std::int32_t> pairs;
  for (std::int64_t r = 0; r < rows.rows(); ++r) {
    for (const std::int32_t column : rows.view().row(r)) {
      pairs.push_back(static_cast<std::int32_t>(r));
      pairs.push_back(column);
    }
  }
  return crc32(pairs);
}

}  // namespace vaecf::data::test
