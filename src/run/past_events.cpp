#include "run/past_events.hpp"

#include <filesystem>

namespace vaecf::run {

std::vector<io::Json> read_events(const checkpoint::RunFolder& folder) {
  const std::string log = folder.log();
  std::error_code missing;
  return std::filesystem::exists(log, missing) ? io::read_json_lines(log) : std::vector<io::Json>();
}

}  // namespace vaecf::run
