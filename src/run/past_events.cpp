#include "run/past_events.hpp"

#include <filesystem>

namespace vaecf::run {

std::vector<io::Json> read_events(const config::TrainingConfig& options) {
  const std::string log = options.run_folder() + "/metrics.jsonl";
  std::error_code missing;
  return std::filesystem::exists(log, missing) ? io::read_json_lines(log) : std::vector<io::Json>();
}

}  // namespace vaecf::run
