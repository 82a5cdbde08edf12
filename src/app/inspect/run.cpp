#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/io/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "app/inspect/inspect.hpp"

namespace vaecf::app {
namespace {

/// What the run of this configuration selects by; empty where another version wrote it, or it selects by
/// none.
std::string selected_metric(const std::string& configuration) {
  try {
    const std::string metric = config::parse(configuration, "start").session.validation.select;
    return metric == "last" ? "" : metric;
  } catch (const InputError&) {
    return "";
  }
}

std::vector<CurvePoint> curve(const std::vector<io::Json>& events, const std::string& event,
                              const std::string& key) {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  std::vector<CurvePoint> points;
  for (const io::Json& line : events) {
    if (io::text_at(line, "event") != event || !line.contains(key)) continue;
    points.push_back({io::number_at(line, "epoch", none), io::number_at(line, key, none)});
  }
  return points;
}

/// The metrics of a validation: its numbers that are named like "recall@20", without their standard errors.
std::vector<std::string> metrics_of(const io::Json& validation) {
  std::vector<std::string> names;
  for (const auto& [name, value] : validation.items()) {
    if (name.find('@') != std::string::npos && !name.ends_with("_se")) names.push_back(name);
  }
  return names;
}

std::string metric_text(const std::vector<io::Json>& events, const std::string& wanted,
                        const std::string& selected, const std::string& path) {
  std::vector<std::string> names;
  for (const io::Json& line : events) {
    if (io::text_at(line, "event") == "validation") names = metrics_of(line);
  }
  if (names.empty() && wanted.empty()) return "no validation yet\n";
  if (names.empty()) throw InputError(format("{} holds no validation, so there is no {}", path, wanted));
  std::string name = wanted.empty() ? selected : wanted;
  if (name.empty()) name = names.front();
  if (std::ranges::find(names, name) == names.end()) {
    std::string known;
    for (const auto& metric : names) known += (known.empty() ? "" : ", ") + metric;
    throw InputError(format("{} holds no {}; it has {}", path, name, known));
  }
  const auto points = curve(events, "validation", name);
  const auto best = std::ranges::max_element(points, {}, [](const CurvePoint& p) {
    return std::isfinite(p.y) ? p.y : -std::numeric_limits<double>::infinity();
  });
  return curve_text(
      points, format("{} of validation users by epoch; best {:.5g} in epoch {:g}", name, best->y, best->x),
      best->x);
}

}  // namespace

std::string curve_text(const std::vector<CurvePoint>& all, const std::string& title, double mark) {
  std::vector<CurvePoint> points;
  std::ranges::copy_if(all, std::back_inserter(points),
                       [](const CurvePoint& p) { return std::isfinite(p.x) && std::isfinite(p.y); });
  if (points.empty()) return "";
  const auto [low, high] = std::ranges::minmax(points, {}, &CurvePoint::y);
  const double range = high.y > low.y ? high.y - low.y : 1.0;
  std::string out = title + "\n";
  const std::size_t step = (points.size() + 19) / 20;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const CurvePoint& p = points[i];
    if (i % step != 0 && i + 1 != points.size() && p.x != mark) continue;
    constexpr double longest = 39.0;
    const auto bar = 1 + std::lround((p.y - low.y) / range * longest);
    out += format("  {:>10g} {:>10.5g} {}\n", p.x, p.y,
                  std::string(static_cast<std::size_t>(bar), p.x == mark ? 'O' : '#'));
  }
  return out;
}

std::string describe_run(const std::string& path, const std::string& metric) {
  const std::string file =
      std::filesystem::is_directory(path) ? (std::filesystem::path(path) / "metrics.jsonl").string() : path;
  const std::vector<io::Json> events = io::read_json_lines(file);
  if (events.empty()) throw InputError(format("{} holds no event of a run", file));
  std::string selected;
  std::string out = format("run {}\n", path);
  for (const io::Json& line : events) {
    const std::string event = io::text_at(line, "event");
    if (event == "start") {
      selected = selected_metric(io::text_at(line, "config"));
      out += format("  start: {}, version {}\n", io::text_at(line, "name"), io::text_at(line, "version"));
    }
    if (event == "end") {
      out += format("  end: {} after {:g} epochs, {:.0f} steps\n", io::text_at(line, "reason"),
                    io::number_at(line, "epoch"), io::number_at(line, "step"));
    }
  }
  out += metric_text(events, metric, selected, file);
  const auto losses = curve(events, "epoch", "loss");
  out += losses.empty()
             ? "no epoch yet\n"
             : curve_text(losses, format("loss of train users by epoch; last {:.5g}", losses.back().y),
                          std::numeric_limits<double>::quiet_NaN());
  return out;
}

}  // namespace vaecf::app
