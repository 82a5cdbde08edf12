#include "app/doctor/report.hpp"

#include <vaecf/base/format.hpp>
#include <vaecf/io/json.hpp>

#include <algorithm>

#include "app/gather.hpp"

namespace vaecf::app {
namespace {

std::vector<std::string> different(const std::vector<std::string>& names) {
  std::vector<std::string> once;
  for (const std::string& name : names) {
    if (std::find(once.begin(), once.end(), name) == once.end()) once.push_back(name);
  }
  return once;
}

std::vector<std::string> hosts_of(const DoctorReport& report, const SharedFinding& shared) {
  std::vector<std::string> names;
  for (const int rank : shared.ranks) names.push_back(report.hosts[static_cast<std::size_t>(rank)]);
  return different(names);
}

/// "ranks 0-3 on node1: "; nothing where it is everybody.
std::string who(const DoctorReport& report, const SharedFinding& shared) {
  const auto hosts = hosts_of(report, shared);
  std::string names;
  for (const std::string& host : hosts) names += (names.empty() ? "" : ", ") + host;
  switch (shared.finding.about) {
    case About::all:
      return "";
    case About::host:
      return hosts.size() == different(report.hosts).size() ? "" : names + ": ";
    case About::rank:
      break;
  }
  if (shared.ranks.size() == report.hosts.size()) return "";
  return format("rank{} {} on {}: ", shared.ranks.size() == 1 ? "" : "s", list_of(shared.ranks), names);
}

std::string size_text(std::int64_t bytes) {
  if (bytes >= 1 << 20) return format("{} MiB", bytes >> 20);
  if (bytes >= 1 << 10) return format("{} KiB", bytes >> 10);
  return format("{} B", bytes);
}

/// "210" of one rank; "210 (105 to 105 a rank)" of several together.
std::string rate_text(const DeviceMeasurements& measured, double train::MachineRates::*rate,
                      const char* unit) {
  double sum = 0.0;
  double least = measured.ranks[0].*rate;
  double most = least;
  for (const train::MachineRates& rank : measured.ranks) {
    sum += rank.*rate;
    least = std::min(least, rank.*rate);
    most = std::max(most, rank.*rate);
  }
  if (measured.ranks.size() == 1) return format("{:.1f} {}", sum, unit);
  return format("{:.1f} {} together, {:.1f} to {:.1f} a rank", sum, unit, least, most);
}

std::string table_of(const DeviceMeasurements& measured, int ranks) {
  std::string text = format("measured on {}{}\n", measured.device,
                            ranks > 1 ? format(", {} ranks at the same time", ranks) : "");
  const auto line = [&](const char* name, double train::MachineRates::*rate, const char* unit) {
    text += format("  {:<16}{}\n", name, rate_text(measured, rate, unit));
  };
  if (!measured.ranks.empty()) {
    line("products, fp32", &train::MachineRates::fp32_gflops, "GFLOP/s");
    line("products, bf16", &train::MachineRates::bf16_gflops, "GFLOP/s");
    line("memory", &train::MachineRates::memory_gbytes, "GB/s");
  }
  for (const comm::AllReduceTime& time : measured.all_reduce) {
    text += format("  {:<16}{:>12.1f} us{:>9.2f} GB/s, {:.2f} GB/s on the bus\n",
                   "sum of " + size_text(time.bytes), 1e6 * time.seconds, time.rate_gbytes(),
                   time.bus_gbytes(ranks));
  }
  return text;
}

io::Json json_of(const DeviceMeasurements& measured, int ranks) {
  io::Json object = {{"device", measured.device}};
  const auto field = [&](const char* name, double train::MachineRates::*rate) {
    object[name] = io::Json::array();
    for (const train::MachineRates& rank : measured.ranks) object[name].push_back(rank.*rate);
  };
  field("fp32_gflops", &train::MachineRates::fp32_gflops);
  field("bf16_gflops", &train::MachineRates::bf16_gflops);
  field("memory_gbytes", &train::MachineRates::memory_gbytes);
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

int DoctorReport::count(Health health) const {
  return static_cast<int>(std::count_if(findings.begin(), findings.end(), [&](const SharedFinding& one) {
    return one.finding.health == health;
  }));
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
    findings.push_back({{"subject", shared.finding.subject},
                        {"health", to_string(shared.finding.health)},
                        {"text", shared.finding.text},
                        {"advice", shared.finding.advice},
                        {"about", to_string(shared.finding.about)},
                        {"ranks", shared.ranks},
                        {"hosts", hosts_of(report, shared)}});
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
