#pragma once

#include <vaecf/config/training_config.hpp>
#include <vaecf/io/json.hpp>

#include <vector>

namespace vaecf::run {

/// Returns the events in metrics.jsonl of the run folder; none if there is no such file.
std::vector<io::Json> read_events(const config::TrainingConfig& options);

}  // namespace vaecf::run
