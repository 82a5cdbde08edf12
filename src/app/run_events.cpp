#include "app/run_events.hpp"

#include <vaecf/base/text.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/run/events.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

#include "app/json_fields.hpp"

namespace vaecf::app {
namespace {

/// Returns the path of the log of a run, given as a folder or as the log itself.
std::string log_of(const std::string& path) {
  const std::filesystem::path subject(path);
  return subject.extension() == ".jsonl" ? path : (subject / "metrics.jsonl").string();
}

/// Returns validation.select of the configuration in an event "start"; empty if it is `last` or not there.
std::string selected_metric(const io::Json& start) {
  const io::Json* select = find_field(start, "config.validation.select");
  return select == nullptr || !select->is_string() || *select == "last" ? "" : select->get<std::string>();
}

struct CurvePoint {
  double epoch = 0.0;
  double value = 0.0;
};

/// Returns the finite values of `field` in all events of a kind.
std::vector<CurvePoint> curve(const std::vector<io::Json>& events, io::EventKind kind,
                              const std::string& field) {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  std::vector<CurvePoint> points;
  for (const io::Json& event : events) {
    if (io::event_kind(event) != kind) continue;
    const io::Json* value = find_field(event, field);
    const CurvePoint point{io::get_number(event, "epoch", none),
                           value != nullptr && value->is_number() ? value->get<double>() : none};
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

/// Lists the curve of the metric `wanted`, or of `selected` if that is empty, or of the first metric. Throws
/// InputError, with the `log`, if the events do not contain `wanted`.
std::string metric_text(const std::vector<io::Json>& events, const std::string& wanted,
                        const std::string& selected, const std::string& log) {
  std::vector<std::string> names;
  for (const io::Json& event : events) {
    if (io::event_kind(event) != io::EventKind::validation || !event.contains("metrics")) continue;
    names.clear();
    for (const auto& [name, value] : event["metrics"].items()) names.push_back(name);
  }
  if (names.empty() && wanted.empty()) return "no validation yet\n";
  if (names.empty())
    throw InputError(format("{}: contains no validation, and so no {}", log, excerpt(wanted)));
  std::string name = wanted.empty() ? selected : wanted;
  if (name.empty()) name = names.front();
  if (std::ranges::find(names, name) == names.end())
    throw InputError(format("{}: contains no {}; available: {}", log, excerpt(name), excerpt(join(names))));
  const auto points = curve(events, io::EventKind::validation, format("metrics.{}.value", name));
  if (points.empty()) return "";
  const auto best = std::ranges::min_element(
      points, [&](double a, double b) { return math::is_better(name, a, b); }, &CurvePoint::value);
  return curve_text(points, format("{} of validation users by epoch; best {:.5g} in epoch {:g}", name,
                                   best->value, best->epoch));
}

/// Lists the solutions of a run that solves a model at once, with `metric`; empty if there are none.
std::string solutions_text(const std::vector<io::Json>& events, const std::string& metric) {
  std::string out;
  for (const io::Json& event : events) {
    if (io::event_kind(event) != io::EventKind::solve) continue;
    out += "  solved:";
    const io::Json settings = event.value("settings", io::Json::object());
    for (const auto& [name, value] : settings.items())
      if (value.is_number()) out += format(" {} {:g},", name, value.get<double>());
    out += format(" {:.1f} s", io::get_number(event, "seconds"));
    if (const auto value = run::metric_in(event, metric)) out += format(", {} {:.5g}", metric, *value);
    out += "\n";
  }
  return out;
}

/// Returns whether the events from `first` on contain the one that proves that `task` was completed.
bool is_completed(const std::vector<io::Json>& events, std::size_t first, const std::string& task) {
  return std::any_of(events.begin() + static_cast<std::ptrdiff_t>(first), events.end(),
                     [&](const auto& event) {
                       const auto kind = io::event_kind(event);
                       if (task != "train") return io::get_string(event, "event") == task;
                       return kind == io::EventKind::done ||
                              (kind == io::EventKind::end && io::get_string(event, "reason") != "stopped");
                     });
}

}  // namespace

RunEvents::RunEvents(const std::string& path, std::string id)
    : path_(path), log_(log_of(path)), id_(std::move(id)) {}

bool RunEvents::exists() const {
  return log_ == path_ || std::filesystem::exists(log_);
}

std::vector<io::Json> RunEvents::read() const {
  std::vector<io::Json> events = io::read_json_lines(log_);
  if (id_.empty()) return events;
  std::string current;  // id of the last start
  std::erase_if(events, [&](const io::Json& event) {
    if (io::event_kind(event) == io::EventKind::start) current = io::get_string(event, "id");
    return io::get_string(event, "id", current) != id_;
  });
  return events;
}

std::string RunEvents::missing(const std::vector<io::Json>& events) const {
  const auto is_start = [](const io::Json& event) { return io::event_kind(event) == io::EventKind::start; };
  const auto last = std::find_if(events.rbegin(), events.rend(), is_start);
  const std::string of = id_.empty() ? "" : " with id " + id_;
  if (last == events.rend()) return format("no start{} was logged", of);
  const auto first = static_cast<std::size_t>(events.rend() - last) - 1;
  for (const io::Json& task : last->value("tasks", io::Json::array())) {
    const std::string name = task.is_string() ? task.get<std::string>() : "";
    if (is_completed(events, first, name)) continue;
    return format("the start of {}{} is not followed by the event {}",
                  io::get_string(*last, "time", "unknown time"), of,
                  name == "train" ? "end of a completed training" : name);
  }
  return "";
}

void RunEvents::require_finished() const {
  const std::string found = std::filesystem::exists(log_) ? missing(read()) : "no start was logged";
  if (!found.empty()) throw RunError(format("{}: not finished: {}", log_, found));
}

io::Json RunEvents::state() const {
  const std::vector<io::Json> events = read();
  double saved = 0.0;
  io::Json last = io::Json::object();
  for (io::Json event : events) {
    const auto kind = io::event_kind(event);
    if (!kind) continue;
    if (kind == io::EventKind::checkpoint) saved = std::max(saved, io::get_number(event, "step"));
    if (kind == io::EventKind::solve) saved = std::max(saved, io::get_number(event, "solution"));
    event.erase("event");
    last[to_string(*kind)] = std::move(event);
  }
  return {{"finished", missing(events).empty()},
          {"saved", static_cast<std::int64_t>(saved)},
          {"events", std::move(last)}};
}

std::string RunEvents::table(const std::string& kind, const std::vector<std::string>& fields) const {
  const auto wanted = parse_enum<io::EventKind>(kind);
  if (!wanted) throw InputError(format("--events: {} is not a kind of event", excerpt(kind)));
  std::string out;
  for (const io::Json& event : read()) {
    if (io::event_kind(event) != wanted) continue;
    std::vector<std::string> cells;
    for (const std::string& field : fields) {
      const io::Json* value = find_field(event, field);
      cells.push_back(value == nullptr ? "" : line_of(*value));
    }
    out += join(cells, "\t") + "\n";
  }
  return out;
}

std::string RunEvents::text(const std::string& metric) const {
  const std::vector<io::Json> events = read();
  if (events.empty()) throw InputError(format("{}: contains no events of a run", log_));
  std::string selected;
  std::string out = format("run {}\n", path_);
  for (const io::Json& event : events) {
    const auto kind = io::event_kind(event);
    if (kind == io::EventKind::start) {
      selected = selected_metric(event);
      out += format("  start: {}, version {}\n", io::get_string(event, "name"),
                    io::get_string(event, "version"));
    }
    if (kind == io::EventKind::failed) out += format("  failed: {}\n", io::get_string(event, "reason"));
    if (kind == io::EventKind::end) {
      const std::string reason = io::get_string(event, "reason");
      const double solutions = io::get_number(event, "solution");
      out += event.contains("solution")
                 ? format("  end: {}, {:g} solution{}\n", reason, solutions, solutions == 1.0 ? "" : "s")
                 : format("  end: {} after {:g} epochs, {:.0f} steps\n", reason,
                          io::get_number(event, "epoch"), io::get_number(event, "step"));
    }
  }
  const std::string solutions = solutions_text(events, metric.empty() ? selected : metric);
  if (!solutions.empty()) return out + solutions;
  out += metric_text(events, metric, selected, log_);
  const auto losses = curve(events, io::EventKind::epoch, "loss");
  if (losses.empty()) return out + "no epoch yet\n";
  return out + curve_text(losses, format("loss of train users by epoch; last {:.5g}", losses.back().value));
}

}  // namespace vaecf::app
