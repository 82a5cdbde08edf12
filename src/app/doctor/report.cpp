#include "app/doctor/report.hpp"

#include <vaecf/base/format.hpp>
#include <vaecf/io/json.hpp>

#include <algorithm>
#include <numeric>
#include <set>

#include "app/ranks.hpp"

namespace vaecf::app {
namespace {

io::Json json_of(const Finding& finding) {
  return {{"subject", finding.subject},
          {"health", to_string(finding.health)},
          {"text", finding.text},
          {"advice", finding.advice},
          {"about", to_string(finding.about)}};
}

Finding finding_of(const io::Json& json) {
  return {json["subject"], parse_enum<Health>(json["health"].get<std::string>()).value(), json["text"],
          json["advice"], parse_enum<About>(json["about"].get<std::string>()).value()};
}

/// Each once, in the order of their names.
std::vector<std::string> hosts_of(const DoctorReport& report, const SharedFinding& shared) {
  std::set<std::string> names;
  for (const int rank : shared.ranks) names.insert(report.hosts[static_cast<std::size_t>(rank)]);
  return {names.begin(), names.end()};
}

/// "ranks 0-3 on node1: "; nothing if it is all of them.
std::string who(const DoctorReport& report, const SharedFinding& shared) {
  const auto hosts = hosts_of(report, shared);
  const std::set<std::string> all_hosts(report.hosts.begin(), report.hosts.end());
  const About about = shared.finding.about;
  if (about == About::all || (about == About::host && hosts.size() == all_hosts.size()) ||
      shared.ranks.size() == report.hosts.size()) {
    return "";
  }
  if (about == About::host) return joined(hosts) + ": ";
  return format("rank{} {} on {}: ", shared.ranks.size() == 1 ? "" : "s", list_of(shared.ranks),
                joined(hosts));
}

/// "210.0 GFLOP/s" of one rank; "210.0 GFLOP/s together, 105.0 to 105.0 a rank" of several.
std::string rate_text(const std::vector<double>& rates, const char* unit) {
  const double sum = std::accumulate(rates.begin(), rates.end(), 0.0);
  if (rates.size() == 1) return format("{:.1f} {}", sum, unit);
  return format("{:.1f} {} together, {:.1f} to {:.1f} a rank", sum, unit, std::ranges::min(rates),
                std::ranges::max(rates));
}

std::string table_of(const DeviceMeasurements& measured, int ranks) {
  std::string text = format("measured on {}\n", measured.device);
  for (std::size_t i = 0; i < device_rates.size(); ++i) {
    text += format("  {:<16}{}\n", device_rates[i].name, rate_text(measured.rates[i], device_rates[i].unit));
  }
  for (const comm::AllReduceTime& time : measured.all_reduce) {
    text += format("  sum of {:>8} bytes {:>12.1f} us{:>9.2f} GB/s, {:.2f} GB/s on the bus\n", time.bytes,
                   1e6 * time.seconds, time.rate_gbytes(), time.bus_gbytes(ranks));
  }
  return text;
}

io::Json json_of(const DeviceMeasurements& measured, int ranks) {
  io::Json object = {{"device", measured.device}};
  for (std::size_t i = 0; i < device_rates.size(); ++i) object[device_rates[i].key] = measured.rates[i];
  io::Json& sums = object["all_reduce"] = io::Json::array();
  for (const comm::AllReduceTime& time : measured.all_reduce) {
    sums.push_back({{"bytes", time.bytes},
                    {"seconds", time.seconds},
                    {"gbytes", time.rate_gbytes()},
                    {"bus_gbytes", time.bus_gbytes(ranks)}});
  }
  return object;
}

}  // namespace

std::vector<SharedFinding> gather_findings(comm::Communicator& communicator, const Findings& mine) {
  std::vector<SharedFinding> all;
  io::Json packed = io::Json::array();
  for (const Finding& finding : mine) packed.push_back(json_of(finding));
  const auto texts = gather_texts(communicator, io::to_text(packed));
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    for (const io::Json& one : io::Json::parse(texts[rank])) {
      const Finding finding = finding_of(one);
      auto place = std::ranges::find(all, finding, &SharedFinding::finding);
      if (place == all.end()) {
        const auto last = std::find_if(all.rbegin(), all.rend(), [&](const SharedFinding& other) {
          return other.finding.subject == finding.subject;
        });
        place = all.insert(last == all.rend() ? all.end() : last.base(), {finding, {}});
      }
      // A rank that found the same twice found it once.
      if (place->ranks.empty() || place->ranks.back() != static_cast<int>(rank)) {
        place->ranks.push_back(static_cast<int>(rank));
      }
    }
  }
  return all;
}

Findings check_same_data(const std::vector<SharedFinding>& findings) {
  const auto opened = std::ranges::count_if(findings, [](const SharedFinding& one) {
    return one.finding.subject == "data" && one.finding.health == Health::ok;
  });
  if (opened < 2) return {};
  return {{"data", Health::fail, "hosts see different datasets under the same name",
           "copy one file to all of them, or put it on a file system that they share"}};
}

Findings check_pace(const DeviceMeasurements& measured) {
  constexpr double much_slower = 0.7;
  const std::vector<double>& rates = measured.rates[0];
  std::vector<double> sorted = rates;
  std::ranges::sort(sorted);
  const double usual = sorted[sorted.size() / 2];
  std::vector<int> slow;
  for (std::size_t rank = 0; rank < rates.size(); ++rank) {
    if (rates[rank] < much_slower * usual) slow.push_back(static_cast<int>(rank));
  }
  if (slow.empty()) return {};
  return {{"pace", Health::warn,
           format("on {}, ranks {}: down to {:.0f} GFLOP/s, and the median is {:.0f}", measured.device,
                  list_of(slow), sorted.front(), usual),
           "all ranks wait for the slowest: see what else runs on its cores, whether it is bound like the "
           "others, and whether its host is of the same kind; then ask again"}};
}

int DoctorReport::count(Health health) const {
  return static_cast<int>(std::ranges::count_if(
      findings, [&](const SharedFinding& one) { return one.finding.health == health; }));
}

std::string to_table(const DoctorReport& report, bool quiet) {
  std::string text = quiet ? "" : format("vaecf_dist {}\n", report.version);
  for (const SharedFinding& shared : report.findings) {
    const Finding& finding = shared.finding;
    if (quiet && finding.health == Health::ok) continue;
    text += format("{:<5} {:<17} {}{}\n", to_string(finding.health), finding.subject, who(report, shared),
                   finding.text);
    if (!finding.advice.empty()) text += format("{:24}-> {}\n", "", finding.advice);
  }
  for (const DeviceMeasurements& measured : report.measured) {
    if (!quiet) text += table_of(measured, static_cast<int>(report.hosts.size()));
  }
  return text + format("{} ok, {} to look at, {} failed\n", report.count(Health::ok),
                       report.count(Health::warn), report.count(Health::fail));
}

std::string to_json(const DoctorReport& report) {
  io::Json findings = io::Json::array();
  for (const SharedFinding& shared : report.findings) {
    io::Json& json = findings.emplace_back(json_of(shared.finding));
    json["ranks"] = shared.ranks;
    json["hosts"] = hosts_of(report, shared);
  }
  io::Json measured = io::Json::array();
  const auto ranks = static_cast<int>(report.hosts.size());
  for (const DeviceMeasurements& device : report.measured) measured.push_back(json_of(device, ranks));
  const io::Json json = {{"version", report.version},
                         {"ranks", ranks},
                         {"hosts", report.hosts},
                         {"ok", report.count(Health::ok)},
                         {"warn", report.count(Health::warn)},
                         {"fail", report.count(Health::fail)},
                         {"findings", findings},
                         {"measured", measured}};
  return io::to_text(json, 2) + "\n";
}

}  // namespace vaecf::app
