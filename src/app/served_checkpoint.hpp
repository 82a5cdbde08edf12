#pragma once

#include <vaecf/config/config.hpp>
#include <vaecf/io/checkpoint.hpp>

#include <optional>
#include <string>

#include "app/command_line.hpp"

namespace vaecf::app {

/// Returns the path of the checkpoint to serve: `requested`, or best.h5 of the run folder if that is empty.
/// Throws InputError if it does not exist.
std::string checkpoint_path(const std::string& requested, const config::Config& config);

/// Returns the configuration of CONFIG.yaml. Without that, opens `checkpoint` at `path` and returns the
/// configuration stored in it. Throws InputError if there is neither, or if one is not valid.
config::Config configuration_of(const CommandLine& line, const std::string& path,
                                std::optional<io::CheckpointFile>& checkpoint);

}  // namespace vaecf::app
