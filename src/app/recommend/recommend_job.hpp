#pragma once

#include <vaecf/base/text.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/hash.hpp>
#include <vaecf/run/item_slices.hpp>
#include <vaecf/run/recommender.hpp>
#include <vaecf/run/test.hpp>
#include <vaecf/run/validate.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <system_error>

#include "app/rank_devices.hpp"
#include "app/rank_session.hpp"
#include "app/recommend/id_files.hpp"
#include "app/recommend/item_names.hpp"
#include "app/recommend/output.hpp"
#include "app/recommend/recommend_arguments.hpp"
#include "app/recommend/target_users.hpp"
#include "app/task_result.hpp"

namespace vaecf::app {

/// Returns the number of users per rank and round, at most `max_users`, for `width` items per user, with
/// those of reasons. After each round the ranks exchange a few megabytes and report progress. Unless a batch
/// of the model exceeds the limit, the number is a multiple of it. The same users are then in one batch for
/// any number of ranks, and their scores are bitwise identical.
inline std::int64_t users_of_round(std::int64_t users, std::int64_t ranks, std::int64_t width,
                                   std::int64_t max_users) {
  const std::int64_t most = std::clamp<std::int64_t>((1 << 18) / width, 1, max_users);
  const std::int64_t at_once = std::min(most, run::Recommender::batch_users);
  const std::int64_t share = (users + at_once * ranks - 1) / (at_once * ranks);
  return at_once * std::min(most / at_once, share);
}

/// Opens the dataset of --split; empty if the users are those of other files. Throws InputError if the
/// checkpoint was trained on another dataset.
inline std::optional<io::DatasetFile> open_dataset(const RecommendArguments& arguments,
                                                   const std::string& path,
                                                   const io::CheckpointFile& checkpoint) {
  if (!arguments.input.empty() || !arguments.user_features.empty()) return std::nullopt;
  const std::string split = format("--split {}", arguments.split);
  if (path.empty())
    throw InputError(format("{}: data.file is not set; set it, or pass new users with --input", split));
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown)) {
    throw InputError(format(
        "{}: the dataset {} does not exist; set data.file, or pass new users with --input", split, path));
  }
  io::DatasetFile dataset(path);
  dataset.require_unique_ids();
  const auto trained_on = checkpoint.attribute<std::string>("dataset_checksum");
  if (dataset.fingerprint() == trained_on) return dataset;
  throw InputError(
      format("{}: the checkpoint's dataset has checksum {}, but {} has {}; use the dataset of its run",
             checkpoint.path(), trained_on, path, dataset.fingerprint()));
}

/// A call of `recommend` for users of files or of the dataset.
class RecommendJob {
 public:
  /// Reads the inputs and loads the model. Throws InputError if an input is not valid.
  RecommendJob(const RecommendArguments& arguments, const std::string& path, const config::Config& config,
               const io::CheckpointFile& checkpoint, RankSession& session,
               std::shared_ptr<const comm::RankGrid> grid)
      : grid_(std::move(grid)),
        arguments_(arguments),
        config_(path),
        ranks_(session.hosts()),
        console_(session.console),
        format_(output_format(arguments_.output, arguments_.format)),
        checkpoint_(checkpoint),
        dataset_(open_dataset(arguments_, config.options.data.file, checkpoint)) {
    for (const std::string& note : config.notes) console_.log.warn("{}", note);
    const io::DatasetSummary summary = checkpoint.dataset();
    items_ = summary.item_ids;
    if (arguments_.titles) titles_ = summary.item_titles;
    if (arguments_.titles && titles_.size() == 0)
      throw InputError(format("--titles: {} contains no /items/title", checkpoint.path()));
    const ItemNames names(items_, summary.item_titles);
    data::SourceOptions source = config.source;
    source.users.path = arguments_.user_features;
    source.users.file.clear();
    target_users_ = make_target_users(arguments_, source, dataset_ ? &*dataset_ : nullptr, checkpoint, names,
                                      console_.log, config.prepare.duplicates);
    if (!arguments_.user.empty() || !arguments_.users.empty())
      target_users_ = select_users(std::move(target_users_), arguments_, source, console_.log);
    users_ = {0, target_users_.users.size()};
    if (users_.size() == 0) throw InputError(format("the {}: there are none", target_users_.description));
    if (!session.device) session.device = device::make_device(backend_options_for_rank(config, ranks_));
    console_.log.debug("backend: {}", session.device->facts().description);
    choice_ = {arguments_.top, arguments_.keep_seen,
               read_allowed_items(arguments_, source, names,
                                  optional_attribute<std::int64_t>(checkpoint, "new_items"), console_.log),
               arguments_.reasons};
    choice_.categories = read_item_categories(arguments_, source, names, console_.log);
    choice_.at_most = arguments_.at_most.second;
    add_to_digest(choice_.allowed_items);
    add_to_digest(choice_.categories);
    excluded_ = read_excluded_pairs(arguments_, source, names, target_users_.users, console_.log);
    add_to_digest(excluded_);
    recommender_.emplace(config.options,
                         Context{ranks_, *session.device, console_.log, *console_.progress, nullptr, grid_},
                         checkpoint_, arguments_.reasons > 0);
    width_ = recommender_->list_length(choice_);
    // The ids of the users and, if read from separate files, their items and features.
    for (std::int64_t user = users_.begin; user < users_.end; ++user)
      add_to_digest(target_users_.users.text(user));
    if (!arguments_.input.empty()) add_to_digest(target_users_.seen(users_));
    if (!arguments_.user_features.empty()) add_to_digest(target_users_.features(users_));
  }

  /// Opens the output on rank 0. Collective. Throws InputError if the inputs of the ranks differ.
  void start() {
    const std::string mine =
        format("{} items for each of {} users ({:016x}), dataset {}, checkpoint {:016x}", width_,
               users_.size(), digest_, dataset_ ? dataset_->fingerprint() : "none", checkpoint_.checksum());
    const std::string first = ranks_.broadcast_string(mine, 0);
    if (mine != first) {
      throw InputError(format(
          "inputs differ from rank 0: {} here and {} there; pass the same files to all ranks", mine, first));
    }
    show_first_users();
    // Reasons take longer than recommendations, at least with networks.
    block_ = users_of_round(users_.size(), grid_->model_parallel_groups(), width_ * (1 + choice_.reasons),
                            choice_.reasons > 0 ? run::Recommender::batch_users : 2000);
    if (ranks_.rank() != 0) return;
    io::validate_output_path(arguments_.output, "--output",
                             {dataset_ ? dataset_->path() : "", config_, checkpoint_.path(), arguments_.input,
                              arguments_.user_features, arguments_.users, arguments_.include,
                              arguments_.exclude, arguments_.exclude_pairs, arguments_.at_most.first});
    io::RecommendationHeader head;
    head.users = target_users_.users;
    head.items = items_;
    head.titles = titles_;
    head.k = width_;
    head.reasons = choice_.reasons;
    head.attributes = list_attributes(checkpoint_);
    head.attributes["seen_items"] = std::string(arguments_.keep_seen ? "kept" : "left out");
    output_.emplace(format_, arguments_.output, std::move(head));
  }

  /// Processes all users in rounds. Collective. In a round, each rank, or each model-parallel group,
  /// processes one block of consecutive users, so that rank 0 can write them in order.
  void work() {
    console_.progress->begin("recommending", users_.size(), "users");
    const std::int64_t round = block_ * grid_->model_parallel_groups();
    for (std::int64_t begin = users_.begin; begin < users_.end; begin += round) {
      work_on(begin);
      ranks_.activity().note_progress();
      console_.progress->update(std::min(begin + round, users_.end) - users_.begin);
    }
    console_.progress->end();
    const std::int64_t by_features = grid_->data_parallel_ranks().all_reduce(by_features_);
    if (!output_) return;
    output_->commit();
    log_users();
    if (by_features > 0) {
      console_.log.info("{} users have no known items; their recommendations are based on features alone",
                        by_features);
    }
    if (without_items_.count() > 0) {
      console_.log.warn(
          "{} users have no known items{} ({}); they get the most popular items, with score nan",
          without_items_.count(), recommender_->features() > 0 ? " and no known features" : "",
          without_items_.text());
    }
    if (arguments_.output.empty()) return;
    console_.log.info("wrote {}: the top {} items of {} users", arguments_.output, width_, users_.size());
  }

 private:
  /// Gathers `mine` of all model-parallel groups.
  template <class T>
  std::vector<T> gather(const std::vector<T>& mine) const {
    std::vector<T> all(mine.size() * grid_->model_parallel_groups());
    grid_->data_parallel_ranks().all_gather(std::span<const T>(mine), std::span(all));
    return all;
  }

  template <class Values>
  void add_to_digest(const Values& values) {
    const auto bytes = std::as_bytes(std::span(values));
    digest_ = io::xxh64({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, digest_);
  }

  void add_to_digest(const Csr& rows) {
    add_to_digest(rows.offsets);
    add_to_digest(rows.columns);
    add_to_digest(rows.values);
  }

  /// Returns whether the users are those of the dataset, and not chosen one by one.
  bool takes_dataset_users() const { return dataset_ && arguments_.user.empty() && arguments_.users.empty(); }

  /// Leaves all but the first ten users of a dataset out where the lists appear on a terminal. Collective.
  void show_first_users() {
    const bool short_lists = takes_dataset_users() && arguments_.output.empty();
    const std::string where =
        short_lists ? ranks_.broadcast_string(appears_on_terminal() ? "terminal" : "", 0) : "";
    if (!where.empty()) users_.end = std::min<std::int64_t>(users_.end, 10);
  }

  /// Says which users have no list here: those who are not shown, and those whom `prepare` left out.
  void log_users() const {
    const std::int64_t all = target_users_.users.size();
    if (users_.size() < all) {
      console_.log.warn("shown are the first {} of {} users; --output FILE writes the lists of all",
                        users_.size(), grouped(all));
    }
    const auto& attributes = dataset_ ? dataset_->attributes() : io::Attributes{};
    const auto found = attributes.find("raw_users");
    if (!takes_dataset_users() || arguments_.split != "all" || found == attributes.end()) return;
    const auto* const of_source = std::get_if<std::int64_t>(&found->second);
    if (of_source == nullptr || *of_source <= all) return;
    console_.log.info(
        "{} of {} users of the source are not in {}: prepare left them out, by data.prepare.min_user_items and the other filters; pass their items with --input",
        grouped(*of_source - all), grouped(*of_source), dataset_->path());
  }

  /// Returns the users of model-parallel group `number` in the round that starts at user
  /// `begin`.
  Range block_of(int number, std::int64_t begin) const {
    const std::int64_t first = std::min(begin + number * block_, users_.end);
    return {first, std::min(first + block_, users_.end)};
  }

  /// Processes the round that starts at user `begin`. Collective.
  void work_on(std::int64_t begin) {
    const auto size = static_cast<std::size_t>(block_ * width_);
    const Range mine = block_of(grid_->model_parallel_group(), begin);
    std::vector<std::int32_t> items(size), because(size * choice_.reasons);
    std::vector<float> scores(size), contributions(because.size());
    if (mine.size() > 0) {
      const auto used = static_cast<std::size_t>(mine.size() * width_);
      const Csr seen = target_users_.seen(mine);
      const Csr features = recommender_->features() > 0 ? target_users_.features(mine) : Csr{};
      const Csr last = choice_.reasons > 0 ? target_users_.last(mine) : Csr{};
      const CsrView excluded = excluded_.rows() > 0 ? excluded_.view().subset(mine) : CsrView{};
      const run::RecommendRequest request{choice_, seen.view(), features.view(), last.view(), excluded};
      recommender_->recommend(request, std::span(items).first(used), std::span(scores).first(used));
      if (choice_.reasons > 0) {
        recommender_->explain(request, std::span(items).first(used), std::span(scores).first(used),
                              std::span(because).first(used * choice_.reasons),
                              std::span(contributions).first(used * choice_.reasons));
      }
      for (std::int64_t row = 0; row < features.rows(); ++row)
        by_features_ += seen.view().row_size(row) == 0 && features.view().row_size(row) > 0;
    }
    const auto all_items = gather(items), all_because = gather(because);
    const auto all_scores = gather(scores), all_contributions = gather(contributions);
    if (!output_) return;
    const Recommendations all{all_items, all_scores, all_because, all_contributions};
    for (int number = 0; number < grid_->model_parallel_groups(); ++number) {
      const Range users = block_of(number, begin);
      const auto first = static_cast<std::int64_t>(size) * number;
      output_->append(all.subset({first, first + users.size() * width_}, choice_.reasons));
      for (std::int64_t user = users.begin; user < users.end; ++user) {
        if (std::isnan(all_scores[first + (user - users.begin) * width_]))
          without_items_.add(target_users_.users.text(user));
      }
    }
  }

  std::shared_ptr<const comm::RankGrid> grid_;
  const RecommendArguments& arguments_;
  const std::string& config_;  // path of the configuration
  comm::Communicator& ranks_;
  Console& console_;
  OutputFormat format_;
  io::CheckpointFile checkpoint_;
  std::optional<io::DatasetFile> dataset_;  // with --split
  io::IdList items_;
  io::IdList titles_;
  TargetUsers target_users_;
  Csr excluded_;  // items not to recommend to each of the users; no rows without --exclude-pairs
  Range users_;
  run::RecommendOptions choice_;
  std::optional<run::Recommender> recommender_;
  std::int64_t width_ = 0;    // items per user
  std::uint64_t digest_ = 0;  // digest of users, their items and features, and allowed items
  std::int64_t block_ = 1;    // users per model-parallel group and round
  std::optional<RecommendationOutput> output_;  // on rank 0 only
  UnknownNames without_items_;
  std::int64_t by_features_ = 0;  // users of this model-parallel group with features but without items
};

}  // namespace vaecf::app
