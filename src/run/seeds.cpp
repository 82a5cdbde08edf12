
#include <vaecf/run/seeds.hpp>

#include <cmath>
#include <numeric>

namespace vaecf::run {

std::string to_table(const std::vector<SeedTest>& tests) {
  const auto count = static_cast<double>(tests.size());
  std::size_t name_width = 6;
  for (const auto& [name, value] : tests.front().metrics) name_width = std::max(name_width, name.size());
  std::string table = format("tests of {} seeds: {} users\n  {:<{}}  {:>8}  {:>8}", tests.size(),
                             tests.front().users, "metric", name_width, "mean", "sd");
  std::vector<std::string> titles;
  for (const SeedTest& test : tests) titles.push_back(format("{:>8}", format("seed {}", test.seed)));
  for (const std::string& title : titles) table += "  " + title;
  for (const auto& [name, first] : tests.front().metrics) {
    std::vector<double> values;
    for (const SeedTest& test : tests) values.push_back(test.metrics.at(name).mean);
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
    double squares = 0.0;
    for (const double value : values) squares += (value - mean) * (value - mean);
    const int digits = mean < 100.0 ? 4 : 1;
    table += format("\n  {:<{}}  {:>8.{}f}  {:>8.{}f}", name, name_width, mean, digits,
                    std::sqrt(squares / (count - 1.0)), digits);
    for (std::size_t i = 0; i < values.size(); ++i)
      table += format("  {:>{}.{}f}", values[i], titles[i].size(), digits);
  }
  return table + "\n";
}

}  // namespace vaecf::run
