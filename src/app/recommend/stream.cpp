#include "app/recommend/stream.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/parallel_for.hpp>
#include <vaecf/base/text.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/run/recommender.hpp>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/console.hpp"
#include "app/rank_devices.hpp"
#include "app/rank_session.hpp"
#include "app/recommend/id_files.hpp"
#include "app/recommend/output.hpp"
#include "app/recommend/stream_request.hpp"
#include "app/recommend/target_users.hpp"
#include "app/stop_signals.hpp"

namespace vaecf::app {
namespace {

/// The lines of standard input.
class InputLines {
 public:
  explicit InputLines(const StopFlag& stop) : stop_(stop) {}

  /// Returns the next line; nullopt if there is none, or, without `waits`, none yet. Of a line that is too
  /// long only the begin is kept.
  std::optional<std::string> next(bool waits) {
    while (!stop_.requested()) {
      const auto end = buffer_.find('\n', searched_);
      if (end != std::string::npos) return take(end);
      searched_ = buffer_.size();
      if (buffer_.size() > max_stream_line + 1) buffer_.resize(searched_ = max_stream_line + 1);
      if (ended_) return buffer_.empty() ? std::nullopt : std::optional(take(buffer_.size()));
      if (!read(waits) && !waits) return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  std::string take(std::size_t end) {
    std::string line = buffer_.substr(0, end);
    buffer_.erase(0, std::min(end + 1, buffer_.size()));
    searched_ = 0;
    return line;
  }

  /// Reads what is there, at most some seconds after it is. Returns false if there is nothing.
  bool read(bool waits) {
    constexpr int milliseconds = 100;  // after which a request to stop is noticed
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (::poll(&input, 1, waits ? milliseconds : 0) <= 0) return false;
    std::array<char, 1 << 16> bytes;
    const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) return false;
    ended_ = count <= 0;
    if (count > 0) buffer_.append(bytes.data(), static_cast<std::size_t>(count));
    return true;
  }

  const StopFlag& stop_;
  std::string buffer_;
  std::size_t searched_ = 0;  // no line ends before it
  bool ended_ = false;
};

class Stream {
 public:
  Stream(const RecommendArguments& arguments, const config::Config& config,
         const io::CheckpointFile& checkpoint, RankSession& session)
      : summary_(checkpoint.dataset()), names_(summary_.item_ids, summary_.item_titles), fields_{names_} {
    if (optional_attribute<std::int64_t>(checkpoint, "user_features") > 0)
      fields_.features = data::FeatureHashing::parse(checkpoint.attribute<std::string>("feature_hashing"));
    if (checkpoint.attributes().contains("interaction_weights")) fields_.weights = weight_rule_of(checkpoint);
    fields_.max_reasons = arguments.reasons;
    new_items_ = optional_attribute<std::int64_t>(checkpoint, "new_items");
    const auto odd = std::ranges::find_if_not(summary_.item_ids.strings, is_utf8);
    if (odd != summary_.item_ids.strings.end()) {
      throw InputError(format("--stream: item {} is not UTF-8, which JSON requires; pass users with --input",
                              excerpt(*odd)));
    }
    for (std::int64_t i = 0; i < names_.size(); ++i) items_.push_back(json_id(summary_.item_ids, i));
    Log& log = session.console.log;
    choice_.k = arguments.top;
    choice_.keep_seen = arguments.keep_seen;
    choice_.reasons = arguments.reasons;
    choice_.allowed_items = read_allowed_items(arguments, config.source, names_, new_items_, log);
    choice_.categories = read_item_categories(arguments, config.source, names_, log);
    choice_.at_most = arguments.at_most.second;
    chooses_items_ = !arguments.include.empty() || !arguments.exclude.empty();
    session.device = device::make_device(backend_options_for_rank(config, session.hosts()));
    threads_ = std::max(1, session.device->facts().threads);
    log.debug("backend: {}", session.device->facts().description);
    recommender_.emplace(
        config.options,
        Context{session.hosts(), *session.device, log, *session.console.progress, nullptr, nullptr},
        checkpoint, arguments.reasons > 0);
  }

  void work(const StopFlag& stop) {
    InputLines lines(stop);
    while (std::optional<std::string> line = lines.next(true)) {
      std::vector<std::string> waiting;
      for (; line; line = lines.next(false)) {
        if (line->find_first_not_of(" \t\r") == std::string::npos) continue;
        waiting.push_back(std::move(*line));
        if (std::ssize(waiting) == run::Recommender::batch_users) break;
      }
      if (!waiting.empty()) print(answer(waiting));
    }
  }

 private:
  /// A line, and its answer.
  struct Entry {
    StreamRequest request;
    std::string answer;  ///< of a line that cannot be read: with the error
  };

  static std::string error(const std::string& user, const std::string& problem) {
    return format("{{{}\"error\":{}}}\n", user.empty() ? "" : "\"user\":" + user + ",",
                  io::dump(io::Json(problem)));
  }

  /// Returns whether both ask for the same, so that one request answers them.
  static bool same_choice(const StreamRequest& a, const StreamRequest& b) {
    return a.k == b.k && a.keep_seen == b.keep_seen && a.reasons == b.reasons && a.include == b.include;
  }

  std::string answer(const std::vector<std::string>& lines) const {
    std::vector<Entry> entries(lines.size());
    parallel_for(threads_, {0, std::ssize(lines)}, [&](std::int64_t n) {
      std::string user;
      try {
        entries[n].request = read_stream_request(lines[n], fields_, user);
      } catch (const InputError& problem) {
        entries[n].answer = error(user, problem.what());
      }
    });
    // Requests that ask for the same are answered together, wherever they are.
    std::vector<bool> done(entries.size());
    for (std::size_t first = 0; first < entries.size(); ++first) {
      if (done[first] || !entries[first].answer.empty()) continue;
      std::vector<Entry*> group;
      for (std::size_t n = first; n < entries.size(); ++n) {
        if (done[n] || !entries[n].answer.empty() || !same_choice(entries[first].request, entries[n].request))
          continue;
        done[n] = true;
        group.push_back(&entries[n]);
      }
      answer_group(group);
    }
    std::string text;
    for (const Entry& entry : entries) text += entry.answer;
    return text;
  }

  void answer_group(std::span<Entry* const> group) const {
    const StreamRequest& first = group.front()->request;
    run::RecommendOptions choice = choice_;
    if (first.k) choice.k = static_cast<int>(*first.k);
    if (first.keep_seen) choice.keep_seen = *first.keep_seen;
    if (first.reasons) choice.reasons = static_cast<int>(*first.reasons);
    if (first.include) {
      choice.allowed_items = run::allowed_items(recommender_->items(), new_items_, true, *first.include, {});
      for (std::size_t i = 0; chooses_items_ && i < choice_.allowed_items.size(); ++i)
        if (choice_.allowed_items[i] == 0) choice.allowed_items[i] = 0;
    }
    Csr seen, features, excluded;
    for (const Entry* entry : group) {
      seen.append({entry->request.items, entry->request.weights});
      features.append({entry->request.features, {}});
      excluded.append({entry->request.exclude, {}});
    }
    const bool excludes = !excluded.columns.empty();
    const run::RecommendRequest request{choice,
                                        seen.view(),
                                        fields_.features.features() > 0 ? features.view() : CsrView{},
                                        {},
                                        excludes ? excluded.view() : CsrView{}};
    try {
      const std::int64_t width = recommender_->list_length(choice);
      const std::int64_t reasons = choice.reasons;
      const auto size = static_cast<std::size_t>(std::ssize(group) * width);
      std::vector<std::int32_t> items(size), because(size * reasons);
      std::vector<float> scores(size), contributions(size * reasons);
      recommender_->recommend(request, items, scores);
      if (reasons > 0) recommender_->explain(request, items, scores, because, contributions);
      const Recommendations all{items, scores, because, contributions};
      for (std::int64_t n = 0; n < std::ssize(group); ++n) {
        const auto own = std::span(items).subspan(n * width, width);
        const std::int64_t length = std::ranges::find(own, -1) - own.begin();
        const StreamRequest& asked = group[n]->request;
        group[n]->answer = format(
            "{{{}{}{}}}\n", asked.user.empty() ? "" : "\"user\":" + asked.user + ",",
            list_fields("items", all.subset({n * width, n * width + length}, reasons), reasons, items_, {}),
            asked.unknown > 0 ? format(",\"unknown\":{}", asked.unknown) : "");
      }
    } catch (const InputError& problem) {
      refuse(group, problem.what());
    } catch (const std::bad_alloc&) {
      refuse(group, "there is not enough memory for this answer; ask for fewer items or reasons");
    }
  }

  static void refuse(std::span<Entry* const> group, const std::string& problem) {
    for (Entry* entry : group) entry->answer = error(entry->request.user, problem);
  }

  io::DatasetSummary summary_;
  ItemNames names_;
  StreamFields fields_;
  std::vector<std::string> items_;  // ids as JSON
  std::int64_t new_items_ = 0;
  run::RecommendOptions choice_;  // of lines that do not choose
  bool chooses_items_ = false;    // by --include or --exclude
  int threads_ = 1;
  std::optional<run::Recommender> recommender_;
};

}  // namespace

ExitCode run_stream(const CommandLine& line, const RecommendArguments& arguments) {
  StopFlag stop;
  const StopSignals signals(stop);
  config::Config config;
  std::optional<io::CheckpointFile> checkpoint;
  const TaskResult parsed =
      run_and_capture([&] { config = configuration_of(line, arguments.checkpoint, checkpoint); });
  // Contributions are small differences, and add up to the score, in fp32 only.
  if (arguments.reasons > 0) config.backend.precision = device::Precision::fp32;
  RankSession session(make_communicator(config.options.distributed));
  session.together(parsed);
  std::optional<Stream> stream;
  session.together([&] {
    if (session.hosts().size() > 1)
      throw InputError("--stream: answers on one rank; start it without mpirun");
    if (!checkpoint) checkpoint.emplace(checkpoint_path(arguments.checkpoint, config));
    session.console = make_console(line.verbosity);
    for (const std::string& note : config.notes) session.console.log.warn("{}", note);
    stream.emplace(arguments, config, *checkpoint, session);
  });
  return session.work(
      [&](std::string&) {
        stream->work(stop);
        return ExitCode::done;
      },
      "recommending");
}

}  // namespace vaecf::app
