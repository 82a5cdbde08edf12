#include <vaecf/base/format.hpp>
#include <vaecf/base/grouped.hpp>
#include <vaecf/data/prepare.hpp>

#include <algorithm>

namespace vaecf::data {
namespace {

std::string to_table(const FeatureReport& features) {
  std::string table =
      format("features of {} of {} users from {}; {} of its {} rows are of nobody in the dataset\n",
             grouped(features.known), grouped(features.users), features.table, grouped(features.unused),
             grouped(features.rows));
  for (const FeatureReport::Column& column : features.columns) {
    table += format("  {}: {} values in {} x {} columns, known of {} users", column.name,
                    grouped(column.values), column.hashes, grouped(column.buckets), grouped(column.users));
    if (column.alike > 0) table += format("; {} values look like another one", grouped(column.alike));
    table += "\n";
  }
  return table;
}

}  // namespace

std::string to_table(const PrepareReport& report) {
  if (report.was_there) return report.stored_table;
  std::size_t width = 4;
  for (const StepCount& step : report.steps) width = std::max(width, step.step.size());
  std::string table = format("{:<{}}  {:>15}  {:>13}  {:>13}\n", "step", width, "events", "users", "items");
  for (const StepCount& step : report.steps) {
    table += format("{:<{}}  {:>15}  {:>13}  {:>13}\n", step.step, width, grouped(step.events),
                    grouped(step.users), grouped(step.items));
  }
  table += format("{} lines read, {} events, {} repeated (user, item) dropped\n", grouped(report.lines_read),
                  grouped(report.events_read), grouped(report.duplicates_dropped));
  if (!report.features.table.empty()) table += to_table(report.features);
  for (const Finding& finding : report.findings) {
    table +=
        format("{:>15} {}: {}, first at {}\n", grouped(finding.count), finding.dropped ? "dropped" : "kept",
               finding.what, finding.examples.empty() ? "?" : finding.examples.front());
  }
  return table;
}

}  // namespace vaecf::data
