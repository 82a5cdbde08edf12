#include "app/doctor/report.hpp"

#include <vaecf/base/error.hpp>

#include <algorithm>
#include <numeric>
#include <set>

#include "app/cores.hpp"
#include "app/doctor/check_result.hpp"
#include "app/doctor/checks.hpp"

namespace vaecf::app {
namespace {

io::Json json_of(const CheckResult& finding) {
  return {{"subject", finding.subject},
          {"health", to_string(finding.severity)},
          {"text", finding.text},
          {"advice", finding.advice},
          {"about", to_string(finding.scope)}};
}

/// A finding with all ranks that reported it. Rank 0 reports for all ranks, one rank per host for its host.
struct MergedResult {
  io::Json finding;
  std::set<int> ranks;
};

/// Gathers the findings of all ranks and merges equal ones. Collective.
std::vector<MergedResult> merge_results(comm::Communicator& communicator, const CheckResults& mine) {
  std::vector<MergedResult> all;
  io::Json packed = io::Json::array();
  for (const CheckResult& finding : mine) packed.push_back(json_of(finding));
  int rank = 0;
  for (const std::string& text : all_gather_strings(communicator, io::dump(packed))) {
    for (const io::Json& finding : io::Json::parse(text)) {
      auto place = std::ranges::find(all, finding, &MergedResult::finding);
      if (place == all.end()) {
        const auto last = std::find_if(all.rbegin(), all.rend(), [&](const MergedResult& other) {
          return other.finding["subject"] == finding["subject"];
        });
        place = all.insert(last == all.rend() ? all.end() : last.base(), {finding, {}});
      }
      place->ranks.insert(rank);
    }
    ++rank;
  }
  const auto datasets = std::ranges::count_if(all, [](const MergedResult& one) {
    return one.finding["subject"] == "data" && one.finding["health"] == "ok";
  });
  if (datasets > 1) {
    const CheckResult different{"data", Severity::fail, "hosts have different datasets under the same name",
                                "copy the same file to all hosts, or put it on a shared file system"};
    all.push_back({json_of(different), {0}});
  }
  return all;
}

/// Returns the ranks or hosts of a finding: "ranks 0-3 on node1: "; empty if it applies to all.
std::string scope_text(const io::Json& finding, const io::Json& report) {
  const auto ranks = finding["ranks"].get<std::vector<int>>();
  const auto hosts = finding["hosts"].get<std::vector<std::string>>();
  if (finding["about"] == "all" || ranks.size() == report["hosts"].size()) return "";
  if (finding["about"] == "rank")
    return format("rank{} {} on {}: ", ranks.size() == 1 ? "" : "s", format_ranges(ranks), join(hosts));
  return hosts.size() == report["hosts"].get<std::set<std::string>>().size() ? "" : join(hosts) + ": ";
}

/// Formats throughput: "210.0 GFLOP/s" for one rank; "210.0 GFLOP/s in total, 105.0 to 105.0 per rank" for
/// several. A rate of 0 is not measured.
std::string rates_text(const std::vector<double>& rates, const char* unit) {
  if (std::ranges::max(rates) == 0.0) return "not measured";
  const double sum = std::accumulate(rates.begin(), rates.end(), 0.0);
  if (rates.size() == 1) return format("{:.1f} {}", sum, unit);
  std::vector<int> missing;
  for (std::size_t rank = 0; rank < rates.size(); ++rank)
    if (rates[rank] == 0.0) missing.push_back(static_cast<int>(rank));
  if (!missing.empty())
    return format("{:.1f} {} in total, not measured on ranks {}", sum, unit, format_ranges(missing));
  const auto [low, high] = std::ranges::minmax(rates);
  return format("{:.1f} {} in total, {:.1f} to {:.1f} per rank", sum, unit, low, high);
}

/// Returns the line of the all-reduces that were not measured; empty if all were, or there is one rank.
std::string unmeasured_text(const io::Json& measured) {
  const io::Json& sums = measured["all_reduce"];
  if (sums.empty()) return measured[device_rates[0].key].size() > 1 ? "  all-reduce: not measured\n" : "";
  const auto largest = static_cast<std::int64_t>(io::get_number(sums.back(), "bytes"));
  if (largest >= run::all_reduce_benchmark_sizes().back()) return "";
  return format("  all-reduce of more than {} bytes: not measured\n", largest);
}

std::string table_of(const io::Json& measured) {
  std::string text = format("measured on {}\n", io::get_string(measured, "device"));
  for (const DeviceRate& rate : device_rates)
    text += format("  {:<16}{}\n", rate.name, rates_text(measured[rate.key], rate.unit));
  for (const io::Json& sum : measured["all_reduce"]) {
    text += format("  all-reduce of {:>8.0f} bytes {:>12.1f} us{:>9.2f} GB/s, bus bandwidth {:.2f} GB/s\n",
                   io::get_number(sum, "bytes"), 1e6 * io::get_number(sum, "seconds"),
                   io::get_number(sum, "gbytes"), io::get_number(sum, "bus_gbytes"));
  }
  return text + unmeasured_text(measured);
}

}  // namespace

io::Json make_report(comm::Communicator& communicator, const std::string& version, const CheckResults& mine,
                     const io::Json& measured) {
  const auto hosts = all_gather_strings(communicator, communicator.host());
  io::Json report = {
      {"version", version}, {"ranks", hosts.size()},         {"hosts", hosts},      {"ok", 0}, {"warn", 0},
      {"fail", 0},          {"findings", io::Json::array()}, {"measured", measured}};
  for (MergedResult& shared : merge_results(communicator, mine)) {
    std::set<std::string> on;
    for (const int rank : shared.ranks) on.insert(hosts[rank]);
    shared.finding["ranks"] = shared.ranks;
    shared.finding["hosts"] = on;
    io::Json& number = report[io::get_string(shared.finding, "health")];
    number = number.get<int>() + 1;
    report["findings"].push_back(std::move(shared.finding));
  }
  return report;
}

void add_report(io::Json& report, const io::Json& later) {
  for (const char* number : {"ok", "warn", "fail"})
    report[number] = report[number].get<int>() + later[number].get<int>();
  for (const io::Json& finding : later["findings"]) report["findings"].push_back(finding);
  report["measured"] = later["measured"];
}

std::string findings_table(const io::Json& report, bool quiet) {
  std::string text;
  for (const io::Json& finding : report["findings"]) {
    const std::string health = io::get_string(finding, "health");
    if (quiet && health == "ok") continue;
    text += format("{:<5} {:<17} {}{}\n", health, io::get_string(finding, "subject"),
                   scope_text(finding, report), io::get_string(finding, "text"));
    const std::string advice = io::get_string(finding, "advice");
    if (!advice.empty()) text += format("{:24}-> {}\n", "", advice);
  }
  return text;
}

std::string summary_table(const io::Json& report, bool quiet) {
  std::string text;
  if (!quiet) {
    for (const io::Json& measured : report["measured"]) text += table_of(measured);
  }
  return text + format("{:.0f} ok, {:.0f} warnings, {:.0f} failed\n", io::get_number(report, "ok"),
                       io::get_number(report, "warn"), io::get_number(report, "fail"));
}

}  // namespace vaecf::app
