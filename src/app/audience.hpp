#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <memory>
#include <string>

#include "app/command_line.hpp"
#include "app/item_names.hpp"

namespace vaecf::app {

/// Who is to get recommendations, and what they have.
class Audience {
 public:
  Audience(io::IdList users, std::string description)
      : users_(std::move(users)), description_(std::move(description)) {}
  virtual ~Audience() = default;

  const io::IdList& users() const { return users_; }  ///< the source's own ids
  std::int64_t size() const { return users_.size(); }
  /// "20 test users of data.h5"
  std::string description() const;
  /// What these users have: a row each, columns ascending and unique.
  virtual Csr seen(Range users) const = 0;
  /// What is known of them beside it, likewise; no rows where that is nothing.
  virtual Csr features(Range users) const = 0;

 private:
  io::IdList users_;
  std::string description_;
};

/// Those of make_newcomers, where --input or the table is given, or the users of --split: "train",
/// "validation", "test", with what the model may see of them; "all" with all that is known of them, held-out
/// items included, each user once. InputError where there are none. The dataset outlives the result.
std::unique_ptr<Audience> make_audience(const RecommendArguments& arguments,
                                        const data::SourceOptions& source, const io::DatasetFile& dataset,
                                        const ItemNames& names, Log& log);

/// The number of the user who has this id. InputError where there is none.
std::int64_t find_user(const Audience& audience, const std::string& id);

/// The ids at `path` of the file; the numbers 0 .. count-1 where it holds none.
io::IdList ids_or_numbers(const io::DatasetFile& file, const std::string& path, std::int64_t count);

}  // namespace vaecf::app
