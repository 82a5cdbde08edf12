#include "app/served_checkpoint.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <filesystem>
#include <system_error>

namespace vaecf::app {

std::string checkpoint_path(const std::string& requested, const config::Config& config) {
  const std::string path = requested.empty() ? config.options.best_checkpoint() : requested;
  std::error_code unknown;
  if (std::filesystem::exists(path, unknown)) return path;
  throw InputError(format("checkpoint {} does not exist; train first, or set --checkpoint", path));
}

config::Config configuration_of(const CommandLine& line, const std::string& path,
                                std::optional<io::CheckpointFile>& checkpoint) {
  if (!line.config.empty()) return config::load(line.config, line.overrides);
  checkpoint.emplace(path);
  return config::parse_served(checkpoint->attribute<std::string>("configuration"), path, line.overrides);
}

}  // namespace vaecf::app
