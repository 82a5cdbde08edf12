#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/progress.hpp>

#include <string>
#include <vector>

#include "data/filter.hpp"
#include "data/parse.hpp"
#include "data/split.hpp"
#include "support.hpp"

namespace vaecf::data::test {

/// A source after parsing, filtering and splitting, columns still in file order.
struct SplitRun {
  RawRatings ratings;
  PrepareReport report;
  Split split;
};

inline SplitRun run_split(const SourceOptions& source, const PrepareOptions& options) {
  Log log;
  Progress progress;
  SplitRun run;
  run.ratings = read_ratings(source, wanted_of(options, false), log, progress);
  filter_events(run.ratings, options, run.report);
  run.split = make_split(run.ratings, options);
  return run;
}

/// CRC-32 of a part's (position, column) pairs, users by ascending id, file order inside.
inline std::uint32_t pairs_crc(const SplitRun& run, const Csr& rows, std::int64_t first_position) {
  std::vector<std::int64_t> position_of(static_cast<std::size_t>(run.ratings.user_ids.size()), -1);
  for (std::size_t p = 0; p < run.split.users.size(); ++p) {
    position_of[static_cast<std::size_t>(run.split.users[p])] = static_cast<std::int64_t>(p);
  }
  std::vector<std::int32_t> pairs;
  for (const std::int32_t user : sorted_users(run.ratings.events, run.ratings.user_ids)) {
    const std::int64_t position = position_of[static_cast<std::size_t>(user)];
    if (position < first_position || position >= first_position + rows.rows()) continue;
    for (const std::int32_t column : rows.view().row(position - first_position)) {
      pairs.push_back(static_cast<std::int32_t>(position));
      pairs.push_back(column);
    }
  }
  return crc32(pairs);
}

/// The same with users by position.
inline std::uint32_t pairs_crc_by_position(const Csr& rows) {
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
