#include <vaecf/base/format.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/train/session.hpp>

#include "app/commands.hpp"
#include "app/device_map.hpp"
#include "app/histories.hpp"
#include "app/progress.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace vaecf::app {
namespace {

/// A text file that gets its name when it is whole; destroyed before, it leaves nothing.
class WholeFile {
 public:
  explicit WholeFile(std::string path)
      : path_(std::move(path)), temporary_(format("{}.tmp.{}", path_, getpid())) {
    file_ = std::fopen(temporary_.c_str(), "wb");
    if (file_ == nullptr) fail();
  }
  ~WholeFile() {
    if (file_ == nullptr) return;
    std::fclose(file_);
    std::remove(temporary_.c_str());
  }
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail();
  }
  void commit() {
    if (std::fflush(file_) != 0 || fsync(fileno(file_)) != 0) fail();
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
    std::fclose(std::exchange(file_, nullptr));
  }

 private:
  [[noreturn]] void fail() const {
    throw RunError(format("cannot write {}: {}", path_, std::strerror(errno)));
  }

  std::string path_;
  std::string temporary_;
  std::FILE* file_ = nullptr;
};

/// Lines of one user; places that no item is left for are absent.
std::string user_lines(const std::string& user, const train::Recommendation& best, const io::IdList& items) {
  std::string out;
  for (std::size_t place = 0; place < best.items.size(); ++place) {
    if (best.items[place] < 0) break;
    out += format("{}\t{}\t{:.6g}\n", user, items.text(best.items[place]), best.scores[place]);
  }
  return out;
}

void write_all(const std::string& output, const Histories& histories,
               const std::vector<train::Recommendation>& recommendations, const io::IdList& items) {
  std::unique_ptr<WholeFile> file;
  if (!output.empty()) {
    make_parent_folder(output);
    file = std::make_unique<WholeFile>(output);
  }
  const auto write = [&](const std::string& text) { file ? file->write(text) : print(text); };
  write("user\titem\tscore\n");
  for (std::size_t row = 0; row < recommendations.size(); ++row) {
    write(user_lines(histories.users[row], recommendations[row], items));
  }
  if (file) file->commit();
}

void keep_one_user(Histories& histories, const std::string& user, const std::string& path) {
  for (std::size_t row = 0; row < histories.users.size(); ++row) {
    if (histories.users[row] != user) continue;
    const auto seen = histories.seen.view().row(static_cast<std::int64_t>(row));
    Csr one{{0, static_cast<std::int64_t>(seen.size())}, {seen.begin(), seen.end()}};
    histories.users = {user};
    histories.seen = std::move(one);
    return;
  }
  throw InputError(format("user {} is not in {}", user, path));
}

Histories read_input(const RecommendArguments& arguments, const io::DatasetFile& dataset,
                     const io::IdList& items, Log& log) {
  if (arguments.input.empty()) return split_histories(dataset, arguments.split, arguments.user);
  Histories histories = read_histories(arguments.input, items);
  if (histories.unknown_items > 0) {
    log.warn("{}: {} lines name items that the model does not know; they are left out", arguments.input,
             histories.unknown_items);
  }
  if (histories.users_without_items > 0) {
    log.warn("{}: {} users have no item that the model knows; they get what suits everybody", arguments.input,
             histories.users_without_items);
  }
  if (!arguments.user.empty()) keep_one_user(histories, arguments.user, arguments.input);
  return histories;
}

}  // namespace

void run_recommend(const CommandLine& line) {
  const config::Config config = config::load(line.config, line.overrides);
  const auto& arguments = line.recommend;
  const auto& session = config.session;
  if (session.data.file.empty()) {
    throw InputError(format("{}: data.file is not set: its dataset tells which item is which", line.config));
  }
  const std::string checkpoint =
      arguments.checkpoint.empty() ? session.best_checkpoint() : arguments.checkpoint;
  if (!std::filesystem::exists(checkpoint)) {
    throw InputError(
        format("there is no checkpoint {}: train first, or name one with --checkpoint", checkpoint));
  }
  const io::DatasetFile dataset(session.data.file);
  const io::IdList items = ids_or_numbers(dataset, "items/id", dataset.items());

  const auto style = progress_style(line.verbosity == Verbosity::quiet, isatty(STDERR_FILENO) == 1,
                                    std::getenv("VAECF_PROGRESS"));
  Log log(line.verbosity, true, style == ProgressStyle::bar);
  const auto progress = make_progress(style);
  const Histories histories = read_input(arguments, dataset, items, log);
  const auto communicator = comm::make_self_communicator();
  const auto backend = backend::make_backend(at_rank(config.backend, *communicator));
  log.debug("backend: {}", backend->description());
  const auto recommendations = train::recommend(session, {*communicator, *backend, log, *progress},
                                                checkpoint, histories.seen.view(), arguments.top);
  progress->end();
  write_all(arguments.output, histories, recommendations, items);
  if (!arguments.output.empty()) {
    log.info("wrote {}: the top {} items of {} users", arguments.output, arguments.top,
             histories.users.size());
  }
}

}  // namespace vaecf::app
