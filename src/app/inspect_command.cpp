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
#include <limits>
#include <numeric>
#include <string_view>
#include <system_error>

#include "app/command_line.hpp"
#include "app/console.hpp"

namespace vaecf::app {
namespace {

struct InspectArguments {
  std::string path;       ///< the file, or the run folder
  std::string metric;     ///< the metric of a run to show; empty: validation.select
  bool finished = false;  ///< only check whether the run is finished
  std::string run_id;     ///< id of the start to check; empty: the last one
};

/// Returns the path of the log of a run, given as a folder or as the log itself.
std::string log_of(const std::string& path) {
  const std::filesystem::path subject(path);
  return subject.extension() == ".jsonl" ? path : (subject / "metrics.jsonl").string();
}

bool is_run(const std::string& path) {
  return log_of(path) == path || std::filesystem::exists(log_of(path));
}

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
    for (const auto& [name, value] : solved->search({}, models::SolvedKind::Purpose::run)->values(0))
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

/// Returns validation.select of a configuration; empty if it is `last`, or if this version cannot read the
/// configuration.
std::string selected_metric(const std::string& configuration) {
  try {
    const std::string metric = config::parse(configuration, "start").options.validation.select;
    return metric == "last" ? "" : metric;
  } catch (const InputError&) {
    return "";
  }
}

struct CurvePoint {
  double epoch = 0.0;
  double value = 0.0;
};

/// Returns the finite values of `key` in all events of a kind.
std::vector<CurvePoint> curve(const std::vector<io::Json>& events, io::EventKind kind,
                              const std::string& key) {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  std::vector<CurvePoint> points;
  for (const io::Json& line : events) {
    if (io::event_kind(line) != kind) continue;
    const CurvePoint point{io::get_number(line, "epoch", none), io::get_number(line, key, none)};
    if (std::isfinite(point.epoch) && std::isfinite(point.value)) points.push_back(point);
  }
  return points;
}

/// Lists about 20 evenly spaced points and the last one, one per line.
std::string curve_text(const std::vector<CurvePoint>& points, const std::string& title) {
  std::string out = title + "\n";
  const std::size_t step = (points.size() + 19) / 20;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i % step == 0 || i + 1 == points.size())
      out += format("  {:>10g} {:>10.5g}\n", points[i].epoch, points[i].value);
  }
  return out;
}

/// Returns the names of the metrics in a validation event, such as "recall@20", without those of standard
/// errors.
std::vector<std::string> metrics_of(const io::Json& validation) {
  std::vector<std::string> names;
  for (const auto& [name, value] : validation.items())
    if (name.find('@') != std::string::npos && !name.ends_with("_se")) names.push_back(name);
  return names;
}

/// Lists the curve of the metric `wanted`, or of `selected` if that is empty, or of the first metric. Throws
/// InputError, with `path`, if the events do not contain `wanted`.
std::string metric_text(const std::vector<io::Json>& events, const std::string& wanted,
                        const std::string& selected, const std::string& path) {
  std::vector<std::string> names;
  for (const io::Json& line : events)
    if (io::event_kind(line) == io::EventKind::validation) names = metrics_of(line);
  if (names.empty() && wanted.empty()) return "no validation yet\n";
  if (names.empty())
    throw InputError(format("{}: contains no validation, and so no {}", path, excerpt(wanted)));
  std::string name = wanted.empty() ? selected : wanted;
  if (name.empty()) name = names.front();
  if (std::ranges::find(names, name) == names.end())
    throw InputError(format("{}: contains no {}; available: {}", path, excerpt(name), excerpt(join(names))));
  const auto points = curve(events, io::EventKind::validation, name);
  if (points.empty()) return "";
  const auto best = std::ranges::min_element(
      points, [&](double a, double b) { return math::is_better(name, a, b); }, &CurvePoint::value);
  return curve_text(points, format("{} of validation users by epoch; best {:.5g} in epoch {:g}", name,
                                   best->value, best->epoch));
}

/// Lists the solutions of a run that solves a model at once, with `metric`; empty if there are none.
std::string solutions_text(const std::vector<io::Json>& events, const std::string& metric) {
  std::string out;
  for (const io::Json& line : events) {
    if (io::event_kind(line) != io::EventKind::solve) continue;
    out += "  solved:";
    for (auto field = line.begin(); field != line.end() && field.key() != "seconds"; ++field)
      if (field->is_number_float() && field.key() != "time")
        out += format(" {} {:g},", field.key(), field->get<double>());
    out += format(" {:.1f} s", io::get_number(line, "seconds"));
    if (line.contains(metric)) out += format(", {} {:.5g}", metric, io::get_number(line, metric));
    out += "\n";
  }
  return out;
}

/// Returns whether the events from `first` on contain the one that proves that `task` was completed.
bool is_completed(const std::vector<io::Json>& events, std::size_t first, const std::string& task) {
  return std::any_of(
      events.begin() + static_cast<std::ptrdiff_t>(first), events.end(), [&](const auto& line) {
        return task == "train"
                   ? io::event_kind(line) == io::EventKind::end && io::get_string(line, "reason") != "stopped"
                   : io::get_string(line, "event") == task;
      });
}

/// Throws RunError, with what is missing, unless the log proves that the last start (with this `id`, unless
/// it is empty) did all of its tasks.
void require_finished(const std::string& path, const std::string& id) {
  const std::string file = log_of(path);
  if (!std::filesystem::exists(file)) throw RunError(format("{}: not finished: no start was logged", file));
  const std::vector<io::Json> events = io::read_json_lines(file);
  std::optional<std::size_t> start;
  bool done = false;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (!id.empty() && io::get_string(events[i], "id") != id) continue;
    const auto kind = io::event_kind(events[i]);
    if (kind == io::EventKind::start) start = i;
    done = done || kind == io::EventKind::done;
  }
  if (!start) {
    if (done) return;
    throw RunError(
        format("{}: not finished: no start{} was logged", file, id.empty() ? "" : " with id " + id));
  }
  const io::Json& begun = events[*start];
  for (const io::Json& task : begun.value("tasks", io::Json::array({"train"}))) {
    const std::string name = task.is_string() ? task.get<std::string>() : "";
    if (is_completed(events, *start, name)) continue;
    throw RunError(format("{}: not finished: the start of {}{} is not followed by the event {}", file,
                          io::get_string(begun, "time", "unknown time"), id.empty() ? "" : " with id " + id,
                          name == "train" ? "end of a completed training" : name));
  }
}

/// Describes a run by its metrics.jsonl: the curves of `metric` (default: validation.select) and of the loss
/// over epochs. Throws InputError if there are no events.
std::string describe_run(const std::string& path, const std::string& metric) {
  const std::string file = log_of(path);
  const std::vector<io::Json> events = io::read_json_lines(file);
  if (events.empty()) throw InputError(format("{}: contains no events of a run", file));
  std::string selected;
  std::string out = format("run {}\n", path);
  for (const io::Json& line : events) {
    const auto kind = io::event_kind(line);
    if (kind == io::EventKind::start) {
      selected = selected_metric(io::get_string(line, "config"));
      out +=
          format("  start: {}, version {}\n", io::get_string(line, "name"), io::get_string(line, "version"));
    }
    if (kind == io::EventKind::failed) out += format("  failed: {}\n", io::get_string(line, "reason"));
    if (kind == io::EventKind::end) {
      const double done = io::get_number(line, "epoch");
      const std::string reason = io::get_string(line, "reason");
      // The event of a solved model has no step.
      out += line.contains("step")
                 ? format("  end: {} after {:g} epochs, {:.0f} steps\n", reason, done,
                          io::get_number(line, "step"))
                 : format("  end: {}, {:g} solution{}\n", reason, done, done == 1.0 ? "" : "s");
    }
  }
  const std::string solutions = solutions_text(events, metric.empty() ? selected : metric);
  if (!solutions.empty()) return out + solutions;
  out += metric_text(events, metric, selected, file);
  const auto losses = curve(events, io::EventKind::epoch, "loss");
  if (losses.empty()) return out + "no epoch yet\n";
  return out + curve_text(losses, format("loss of train users by epoch; last {:.5g}", losses.back().value));
}

void run_inspect(const CommandLine& line, const InspectArguments& arguments) {
  const std::string& path = arguments.path;
  if (arguments.finished) return require_finished(path, arguments.run_id);
  if (is_run(path)) return print(describe_run(path, arguments.metric));
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
                              "  vaecf_dist inspect runs/ml20m --finished",
                              with(arguments, run_inspect));
  command
      .add_option("FILE|RUN", arguments->path, "a dataset, a checkpoint, a metrics.jsonl, or a run folder")
      ->required();
  command.add_option("--metric", arguments->metric,
                     "metric to show for a run; default: its validation.select");
  auto* finished = command.add_flag(
      "--finished", arguments->finished,
      "show nothing; exit with 0 if the last start of the run has done all its tasks, else with 1");
  command
      .add_option("--id", arguments->run_id,
                  "with --finished: the start with this VAECF_RUN_ID instead of the last one")
      ->needs(finished);
}

}  // namespace vaecf::app
