#include <vaecf/base/format.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/scaling/report.hpp>

#include "scaling/page.hpp"

#include <algorithm>
#include <cmath>

namespace vaecf::scaling {
namespace {

using io::Json;

std::string name_of(const ScalingPoint& point) {
  return point.variant.empty() ? "one rank" : point.variant;
}

std::string format_stats(const SampleStats& stats, double scale, int digits) {
  return stats.count < 2 ? format("{:.{}f}", scale * stats.median, digits)
                         : format("{:.{}f} ({:.{}f}-{:.{}f})", scale * stats.median, digits,
                                  scale * stats.min, digits, scale * stats.max, digits);
}

std::string rows(const std::vector<ScalingPoint>& points) {
  std::string text =
      format("  {:>5} {:>8}  {:<28}{:>24}{:>22}{:>12}{:>8}{:>13}{:>10}\n", "ranks", "batch", "variant",
             "users/s (low-high)", "efficiency %", "predicted", "error", "MB per step", "bus GB/s");
  for (const ScalingPoint& p : points) {
    text += format("  {:>5} {:>8.0f}  {:<28}{:>24}{:>22}{:>12}{:>8}{:>13.{}f}{:>10}\n", p.ranks, p.batch_size,
                   name_of(p), format_stats(p.users_per_second, 1.0, 0), format_stats(p.efficiency, 100.0, 1),
                   p.predicted ? format("{:.0f}", p.predicted->users_per_second) : "-",
                   p.predicted ? format("{:+.0f} %", std::round(100.0 * p.prediction_error()) + 0.0) : "-",
                   1e-6 * p.wire_bytes, p.wire_bytes > 0.0 && p.wire_bytes < 1e6 ? 3 : 1,
                   p.bus_rate > 0.0 ? format("{:.2f}", 1e-9 * p.bus_rate) : "-");
  }
  return text;
}

std::string break_even_line(const Report::BreakEven& found) {
  const std::string ranks = format("from {} ranks to {}", found.ranks, 2 * std::int64_t{found.ranks});
  const std::string variant = found.variant.empty() ? "" : format(" ({})", found.variant);
  if (!found.users) return format("{}{}, users/s never increase by 10 %", ranks, variant);
  if (*found.users <= 0.0)
    return format("{}{}, users/s increase by at least 10 % with any number of users", ranks, variant);
  return format("below about {:.0f} users per rank and step, going {} gives less than 10 % more users/s{}",
                *found.users, ranks, variant);
}

Json object_of(const SampleStats& stats) {
  return {{"median", stats.median}, {"low", stats.min}, {"high", stats.max}, {"repeats", stats.count}};
}

Json object_of(const ScalingPoint& p) {
  Json phases = Json::object();
  for (const auto& [name, seconds] : p.phase_seconds) phases[name] = 1e3 * seconds;
  Json point = {{"ranks", p.ranks},
                {"batch_size", p.batch_size},
                {"variant", name_of(p)},
                {"users_per_second", object_of(p.users_per_second)},
                {"efficiency", object_of(p.efficiency)},
                {"step_ms", 1e3 * p.step_seconds},
                {"phases_ms", phases},
                {"wire_bytes", p.wire_bytes},
                {"bus_gbytes", 1e-9 * p.bus_rate}};
  if (p.predicted) {
    point["predicted"] = {
        {"users_per_second", p.predicted->users_per_second}, {"efficiency", p.predicted_efficiency},
        {"compute_ms", 1e3 * p.predicted->compute},          {"update_ms", 1e3 * p.predicted->update},
        {"exchange_ms", 1e3 * p.predicted->communication},   {"error", p.prediction_error()}};
  }
  return point;
}

Json list_of(const std::vector<ScalingPoint>& points) {
  Json list = Json::array();
  for (const ScalingPoint& point : points) list.push_back(object_of(point));
  return list;
}

/// Escapes "</" in JSON, since it would end the script element of the HTML page.
std::string within_script(std::string json) {
  for (std::size_t at = json.find("</"); at != std::string::npos; at = json.find("</", at)) {
    json.insert(at + 1, "\\");
    at += 2;
  }
  return json;
}

}  // namespace

std::string to_table(const Report& report) {
  std::string text = format("{}\nvaecf_dist {}, {}, {}, {} threads per rank, {}\n", report.machine,
                            report.version, report.device, report.precision, report.threads, report.binding);
  for (const std::string& warning : report.warnings) text += "warning: " + warning + "\n";
  if (!report.strong.empty()) {
    text += format("strong scaling: {:.0f} users per step over all ranks\n", report.batch_size) +
            rows(report.strong);
  }
  if (!report.weak.empty()) {
    text +=
        format("weak scaling: {:.0f} users per step and rank\n", report.users_per_rank) + rows(report.weak);
  }
  if (report.cost.known()) {
    text += format("model: {:.2f} ms per step + {:.4f} ms per user + {:.2f} ms for the update\n",
                   1e3 * report.cost.fixed, 1e3 * report.cost.per_user, 1e3 * report.cost.update_single_rank);
  }
  if (report.probed.within_host.bandwidth > 0.0) {
    text += format("between ranks: {:.1f} us latency, {:.2f} GB/s\n", 1e6 * report.probed.within_host.latency,
                   1e-9 * report.probed.within_host.bandwidth);
  }
  if (report.break_even) text += break_even_line(*report.break_even) + "\n";
  return text;
}

std::string to_csv(const Report& report) {
  std::string text =
      "mode,ranks,batch_size,variant,users_per_second,users_per_second_low,users_per_second_high,repeats,efficiency,step_ms,input_ms,forward_ms,loss_ms,backward_ms,all_reduce_ms,optimizer_ms,wire_bytes,bus_gbytes,predicted_users_per_second,prediction_error\n";
  const auto add = [&](const char* mode, const std::vector<ScalingPoint>& points) {
    for (const ScalingPoint& p : points) {
      text += format("{},{},{:.0f},{},{:.1f},{:.1f},{:.1f},{},{:.4f},{:.4f}", mode, p.ranks, p.batch_size,
                     name_of(p), p.users_per_second.median, p.users_per_second.min, p.users_per_second.max,
                     p.users_per_second.count, p.efficiency.median, 1e3 * p.step_seconds);
      for (const char* phase : phase_names) {
        const auto found = p.phase_seconds.find(phase);
        text += format(",{:.4f}", found == p.phase_seconds.end() ? 0.0 : 1e3 * found->second);
      }
      text += format(",{:.0f},{:.4f}", p.wire_bytes, 1e-9 * p.bus_rate);
      text += p.predicted ? format(",{:.1f},{:.4f}\n", p.predicted->users_per_second, p.prediction_error())
                          : ",,\n";
    }
  };
  add("strong", report.strong);
  add("weak", report.weak);
  return text;
}

std::string to_json(const Report& report) {
  Json model = {{"fixed_ms", 1e3 * report.cost.fixed},
                {"per_user_ms", 1e3 * report.cost.per_user},
                {"update_ms", 1e3 * report.cost.update_single_rank},
                {"latency_us", 1e6 * report.probed.within_host.latency},
                {"bandwidth_gbytes", 1e-9 * report.probed.within_host.bandwidth},
                {"predicts", report.cost.known()}};
  if (report.break_even) {
    const Report::BreakEven& found = *report.break_even;
    model["stops_paying"] = break_even_line(found);
    model["stops_paying_variant"] = found.variant;
    if (found.users) model["users_where_ranks_stop_paying"] = *found.users;
  }
  const Json json = {{"version", report.version},
                     {"machine", report.machine},
                     {"device", report.device},
                     {"precision", report.precision},
                     {"threads", report.threads},
                     {"ranks_per_host", report.ranks_per_host},
                     {"binding", report.binding},
                     {"warnings", report.warnings},
                     {"batch_size", report.batch_size},
                     {"users_per_rank", report.users_per_rank},
                     {"strong", list_of(report.strong)},
                     {"weak", list_of(report.weak)},
                     {"model", model}};
  return io::dump(json, 1) + "\n";
}

std::string to_html(const Report& report) {
  std::string text = page;
  const std::string placeholder = "/*REPORT*/null";
  return text.replace(text.find(placeholder), placeholder.size(), within_script(to_json(report)));
}

std::string predict_table(const Machine& machine, const Workload& workload, const ParallelConfig& config,
                          const std::vector<int>& ranks) {
  const StepCost cost = step_cost(machine, workload);
  ParallelConfig one = config;
  one.ranks = 1;
  const double alone = predict(cost, workload, machine, one).users_per_second;
  std::string text = format(
      "predicted, not measured: {}\n  one rank: {:.0f} users/s at {:.0f} users per step\n"
      "  {:>6} {:<7}{:>9}{:>14}{:>12}{:>11}{:>11}{:>11}{:>12}\n",
      machine.name, alone, config.users, "ranks", "mode", "batch", "users/s", "efficiency", "compute",
      "update", "exchange", "MB per step");
  const auto row = [&](const char* mode, const ParallelConfig& s) {
    const Prediction p = predict(cost, workload, machine, s);
    text += format("  {:>6} {:<7}{:>9.0f}{:>14.0f}{:>12} {:>7.2f} ms {:>7.2f} ms {:>7.2f} ms{:>12.1f}\n",
                   s.ranks, mode, s.users, p.users_per_second,
                   format("{:.1f} %", 100.0 * (p.users_per_second / (s.ranks * alone))), 1e3 * p.compute,
                   1e3 * p.update, 1e3 * p.communication, 1e-6 * p.wire_bytes);
  };
  for (const int count : ranks) {
    ParallelConfig s = config;
    s.ranks = count;
    row("strong", s);
    s.users *= count;
    row("weak", s);
  }
  for (const int count : ranks) {
    ParallelConfig s = config;
    s.ranks = count;
    const auto users = break_even_users_per_rank(cost, workload, machine, s);
    text += "  " + break_even_line({"", count, users}) + "\n";
  }
  return text;
}

}  // namespace vaecf::scaling
