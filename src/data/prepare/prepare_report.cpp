#include <vaecf/base/text.hpp>
#include <vaecf/data/prepare_report.hpp>

#include "data/features/feature_rows.hpp"

namespace vaecf::data {

std::string to_table(const PrepareReport& report) {
  if (report.up_to_date) return report.stored_report;
  std::size_t width = 4;
  for (const StageCounts& counts : report.stages) width = std::max(width, counts.stage.size());
  std::string table = format("{:<{}}  {:>15}  {:>13}  {:>13}\n", "stage", width, "events", "users", "items");
  for (const StageCounts& counts : report.stages) {
    table += format("{:<{}}  {:>15}  {:>13}  {:>13}\n", counts.stage, width, grouped(counts.events),
                    grouped(counts.users), grouped(counts.items));
  }
  table += format("{} lines read, {} events, {} repeated (user, item)\n", grouped(report.lines_read),
                  grouped(report.events_read), grouped(report.duplicates_dropped));
  if (report.low_ratings) {
    const auto& [lowest, highest, fraction] = *report.low_ratings;
    table += format(
        "{:.1f} % of the ratings lie in the lower half of the scale {} to {}; data.prepare.min_rating: {} drops them\n",
        100.0 * fraction, lowest, highest, 0.5 * (lowest + highest));
  }
  table += to_table(report.features) + to_table(report.item_features);
  if (!report.item_features.table.empty())
    table += format("{} new items, without train users\n", grouped(report.new_items));
  for (const DataIssue& issue : report.issues) {
    table += format("{:>15} {}: {}, first at {}\n", grouped(issue.count), issue.dropped ? "dropped" : "kept",
                    issue.what, issue.examples.empty() ? "?" : issue.examples.front());
  }
  return table;
}

}  // namespace vaecf::data
