#pragma once

#include <vaecf/io/recommendation_file.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace vaecf::app {

/// How recommendations are written.
enum class OutputFormat { tsv, csv, hdf5 };

/// `wish`: "tsv", "csv", "hdf5", or empty: by the extension of `path`, else TSV. InputError where neither is
/// to be had.
OutputFormat output_format(const std::string& wish, const std::string& path);

/// Takes recommendations user by user, in the order of RecommendationHead::users.
class RecommendationOutput {
 public:
  virtual ~RecommendationOutput() = default;
  /// The next users, best item first: items and scores (rows, k), item -1 where no item is left; scores nan
  /// of users who got the popular items.
  virtual void append(std::span<const std::int32_t> items, std::span<const float> scores) = 0;
  virtual void commit() = 0;
};

/// Text has a line for each user and item, with a column `title` where the head has titles. `path` empty:
/// standard output.
std::unique_ptr<RecommendationOutput> make_output(OutputFormat format, const std::string& path,
                                                  io::RecommendationHead head);

}  // namespace vaecf::app
