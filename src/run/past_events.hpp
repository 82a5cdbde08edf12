#pragma once

#include <vaecf/checkpoint/run_folder.hpp>
#include <vaecf/io/json.hpp>

#include <vector>

namespace vaecf::run {

/// Returns the events in metrics.jsonl of the run folder; none if there is no such file.
std::vector<io::Json> read_events(const checkpoint::RunFolder& folder);

}  // namespace vaecf::run
