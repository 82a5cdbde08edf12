#include <vaecf/base/text.hpp>
#include <vaecf/checkpoint/checkpoint_reader.hpp>
#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/models/model.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string_view>
#include <system_error>

#include "app/command_line.hpp"
#include "app/console.hpp"
#include "app/run_events.hpp"

namespace vaecf::app {
namespace {

struct InspectArguments {
  std::string path;                 ///< the file, or the run folder
  std::string metric;               ///< the metric of a run to show; empty: validation.select
  bool finished = false;            ///< only check whether the run is finished
  bool json = false;                ///< the state of a run as JSON
  std::string events;               ///< kind of the events to list; empty: none
  std::vector<std::string> fields;  ///< what to list of each
  std::string run_id;               ///< id of the start to look at; empty: all
};

/// Returns whether an HDF5 file is a dataset, not a checkpoint, by the offset of its signature: 0 in a
/// dataset, 512 in a checkpoint, after the user block. Throws InputError if the file is neither.
bool is_dataset(const std::string& path) {
  constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
  if (std::filesystem::is_directory(path))
    throw InputError(format("{}: folder without metrics.jsonl; pass an HDF5 file or a run folder", path));
  std::error_code missing;
  if (std::filesystem::exists(path, missing) && !std::filesystem::is_regular_file(path))
    throw InputError(format("{}: is not a regular file; pass an HDF5 file or a run folder", path));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(format("cannot read {}: {}", path, std::strerror(errno)));
  std::array<char, 512 + signature.size()> head{};
  file.read(head.data(), head.size());
  const std::string_view seen(head.data(), static_cast<std::size_t>(file.gcount()));
  if (seen.starts_with(signature)) return true;
  if (seen.size() == head.size() && seen.ends_with(signature)) return false;
  throw InputError(format("{}: neither a dataset nor a checkpoint: not an HDF5 file, or damaged", path));
}

std::string text_of(const io::Attribute& attribute) {
  if (const auto* number = std::get_if<std::int64_t>(&attribute)) return format("{}", *number);
  if (const auto* number = std::get_if<double>(&attribute)) return format("{}", *number);
  if (const auto* list = std::get_if<std::vector<double>>(&attribute)) {
    std::vector<std::string> numbers;
    for (const double number : *list) numbers.push_back(format("{}", number));
    return join(numbers);
  }
  return std::get<std::string>(attribute);
}

/// Lists the attributes, one per line; a value of several lines is indented below its name.
std::string attributes_text(const io::Attributes& attributes) {
  std::string out = "attributes\n";
  for (const auto& [name, value] : attributes) {
    std::string text = " " + text_of(value);
    if (text.find('\n') != std::string::npos) text[0] = '\n';
    for (auto at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 5))
      text.replace(at, 1, "\n    ");
    out += format("  {}:{}\n", name, text);
  }
  return out;
}

/// Lists minimum, quantiles, maximum and mean of `values`. Sorts them.
template <class T>
std::string quantiles_text(std::vector<T>& values) {
  std::ranges::sort(values);
  const auto quantile = [&](double fraction) {
    return values[static_cast<std::size_t>(std::lround(fraction * static_cast<double>(values.size() - 1)))];
  };
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return format("  min {}, 10 % {}, 25 % {}, median {}, 75 % {}, 90 % {}, 99 % {}, max {}; mean {:.1f}\n",
                quantile(0.0), quantile(0.1), quantile(0.25), quantile(0.5), quantile(0.75), quantile(0.9),
                quantile(0.99), quantile(1.0), sum / static_cast<double>(values.size()));
}

/// Describes the distribution of `counts`: minimum, quantiles, maximum, mean, and a histogram with bins
/// between powers of two. Sorts `counts`.
std::string histogram_text(std::vector<std::int64_t>& counts) {
  if (counts.empty()) return "";
  std::string out = quantiles_text(counts);
  for (auto begin = counts.begin(); begin != counts.end();) {
    const auto low = std::bit_floor(static_cast<std::uint64_t>(*begin));  // 0, 1, 2, 4, 8, ...
    const auto high = static_cast<std::int64_t>(low <= 1 ? low : 2 * low - 1);
    const auto end = std::upper_bound(begin, counts.end(), high);
    const std::string range = low <= 1 ? format("{}", low) : format("{} - {}", low, high);
    out += format("  {:>17} {:>10}\n", range, end - begin);
    begin = end;
  }
  return out;
}

/// Describes a dataset: sizes, density, distributions of items per user and users per item, and attributes.
std::string describe_dataset(const std::string& path) {
  const io::DatasetFile file(path);
  file.require_unique_ids();
  std::string out = format("dataset {}\n  items: {}\n", path, file.items());
  if (file.new_items() > 0) out += format("  of them new, without train users: {}\n", file.new_items());
  const std::int64_t level = file.compression();
  if (level > 0) out += format("  compression: shuffle, deflate {}\n", level);
  const auto add_matrix = [&](const char* matrix, bool with_density) {
    const auto users = static_cast<double>(std::max<std::int64_t>(1, file.rows(matrix)));
    const double mean = static_cast<double>(file.entries(matrix)) / users;
    const double density = file.items() > 0 ? 100.0 * mean / static_cast<double>(file.items()) : 0.0;
    out += format("  {:<24}{:>12}{:>15}{:>10.1f}{}\n", matrix, file.rows(matrix), file.entries(matrix), mean,
                  with_density ? format("{:>10.4f} %", density) : "");
  };
  out += format("  {:<24}{:>12}{:>15}{:>10}{:>12}\n", "", "users", "interactions", "mean", "density");
  for (const char* matrix :
       {"train", "validation/fold_in", "validation/held_out", "test/fold_in", "test/held_out"})
    add_matrix(matrix, true);
  const auto add_features = [&](const char* of, std::int64_t features, const auto& matrices) {
    if (features == 0) return;
    out += format("  features of {0}: {1}\n  {2:<24}{0:>12}{3:>15}{4:>10}\n", of, features, "", "features",
                  "mean");
    for (const char* matrix : matrices) add_matrix(matrix, false);
  };
  add_features("users", file.features(),
               std::array{"train/user_features", "validation/user_features", "test/user_features"});
  add_features("items", file.item_features(), std::array{"items/features"});
  std::vector<std::int64_t> of_users, of_items(file.items());
  std::vector<float> weights;
  for (std::int64_t begin = 0, block_rows = 1 << 14; begin < file.rows("train"); begin += block_rows) {
    const Csr block = file.read_rows("train", {begin, std::min(file.rows("train"), begin + block_rows)});
    for (std::int64_t row = 0; row < block.rows(); ++row) of_users.push_back(block.view().row_size(row));
    for (const std::int32_t item : block.columns) ++of_items[item];
    weights.insert(weights.end(), block.values.begin(), block.values.end());
  }
  out += format("items of a train user\n{}", histogram_text(of_users));
  out += format("train users of an item\n{}", histogram_text(of_items));
  if (!weights.empty()) out += format("weights of train interactions\n{}", quantiles_text(weights));
  out += format("checksum: {}\n", file.fingerprint());
  return out + attributes_text(file.attributes());
}

/// Describes a checkpoint: model, training progress and weights; with `verbose`, also every tensor and
/// attribute, which include the configuration.
std::string describe_checkpoint(const std::string& path, bool verbose) {
  const io::CheckpointFile file(path);
  checkpoint::require_known_model(file);
  const auto text = [&](const char* name) {
    const auto found = file.attributes().find(name);
    return found == file.attributes().end() ? std::string("unknown") : text_of(found->second);
  };
  std::string out = format("checkpoint {}: complete, checksum correct\n", path);
  const models::Kind* kind = models::find_kind(text("model_type"));
  if (const auto* solved = kind == nullptr ? nullptr : kind->solved()) {
    out += format("  model: {}, {} items\n", text("model_type"), text("items"));
    for (const auto& [name, value] : solved->search({}, models::SolvedKind::Purpose::run, false)->values(0))
      if (file.attributes().contains(name)) out += format("  {}: {}\n", name, text(name.c_str()));
    if (text("select") != "last")
      out += format("  {} of validation users: {}\n", text("select"), text("best_metric"));
  } else {
    const std::string layers =
        kind != nullptr && !kind->uses("model.hidden")
            ? ""
            : format("hidden layers [{}], latent {}, ", text("model_hidden"), text("model_latent"));
    out += format("  model: {}, {}{} items\n", text("model_type"), layers, text("items"));
    out += format("  trained: {} epochs, {} steps, and {} steps of the next epoch; {} users seen\n",
                  text("epoch"), text("step"), text("step_in_epoch"), text("users_seen"));
    out += text("select") == "last" ? std::string("  best: always the last epoch\n")
                                    : format("  best so far: {} {} in epoch {}\n", text("select"),
                                             text("best_metric"), text("best_epoch"));
  }
  out += format("  dataset checksum: {}\ntensors\n", text("dataset_checksum"));
  std::int64_t weights = 0;
  std::int64_t others = 0;
  for (const auto& tensor : file.tensors()) {
    const bool weight = tensor.name.starts_with("weights/");
    (weight ? weights : others) += tensor.rows * tensor.columns;
    if (weight || verbose) out += format("  {:<44}{:>10} x {}\n", tensor.name, tensor.rows, tensor.columns);
  }
  out += format("  {} weights, {} values of optimizer state\n", weights, others);
  return out + (verbose ? attributes_text(file.attributes())
                        : "-v shows all tensors, all attributes and the configuration\n");
}

void run_inspect(const CommandLine& line, const InspectArguments& arguments) {
  const std::string& path = arguments.path;
  const RunEvents run(path, arguments.run_id);
  if (arguments.finished) return run.require_finished();
  if (arguments.json) return print(io::dump(run.state(), 2) + "\n");
  if (!arguments.events.empty()) return print(run.table(arguments.events, arguments.fields));
  if (run.exists()) return print(run.text(arguments.metric));
  if (!arguments.metric.empty())
    throw InputError(format("--metric: {} is neither a run folder nor a .jsonl file", path));
  print(is_dataset(path) ? describe_dataset(path)
                         : describe_checkpoint(path, line.verbosity == Verbosity::verbose));
}

}  // namespace

void add_inspect(CLI::App& app, CommandLine& line) {
  const auto arguments = std::make_shared<InspectArguments>();
  auto& command = add_command(app, line, "inspect",
                              "show the contents of a dataset or a checkpoint, or the curves of a run",
                              "  vaecf_dist inspect data/ml20m.h5\n"
                              "  vaecf_dist inspect runs/ml20m/checkpoints/best.h5\n"
                              "  vaecf_dist inspect runs/ml20m --metric recall@20\n"
                              "  vaecf_dist inspect runs/ml20m --finished\n"
                              "  vaecf_dist inspect runs/ml20m --json\n"
                              "  vaecf_dist inspect runs/ml20m --events epoch --fields epoch,loss",
                              with(arguments, run_inspect));
  command
      .add_option("FILE|RUN", arguments->path, "a dataset, a checkpoint, a metrics.jsonl, or a run folder")
      ->required();
  command.add_option("--metric", arguments->metric,
                     "metric to show for a run; default: its validation.select");
  auto* finished = command.add_flag(
      "--finished", arguments->finished,
      "show nothing; exit with 0 if the last start of the run has done all its tasks, else with 1");
  auto* json = command.add_flag(
      "--json", arguments->json,
      "show the state of a run as JSON: whether it is finished, how far it is saved, and the last event of each kind");
  auto* events = command.add_option("--events", arguments->events,
                                    "list the events of this kind, one per line, with tabs between --fields");
  json->excludes(finished);
  events->excludes(finished)->excludes(json);
  command
      .add_option("--fields", arguments->fields,
                  "fields of --events, with points for those within others: epoch,metrics.ndcg@100.value")
      ->delimiter(',')
      ->needs(events);
  events->needs(command.get_option("--fields"));
  command.add_option(
      "--id", arguments->run_id,
      "with --finished, --json and --events: only the events of the start with this VAECF_RUN_ID");
}

}  // namespace vaecf::app
