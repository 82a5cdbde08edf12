#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/io/json.hpp>

#include <string>

#include "app/doctor/check_result.hpp"

namespace vaecf::app {

/// Returns the report, identical on all ranks. Collective. Its keys are:
/// - `version`, `ranks`, and `hosts` by rank;
/// - `ok`, `warn`, `fail`: the number of findings of each severity;
/// - `findings` of all ranks, grouped by subject; equal ones are merged and list their `ranks` and `hosts`;
/// - `measured`: for each kind of device, throughput by rank and all-reduce times.
/// Adds a failure if hosts have different datasets under the same name.
io::Json make_report(comm::Communicator& communicator, const std::string& version, const CheckResults& mine,
                     const io::Json& measured);
/// Adds the findings of the report `later` to `report`, and replaces its measurements.
void add_report(io::Json& report, const io::Json& later);
/// Formats the findings for a terminal; `quiet`: without those that are ok.
std::string findings_table(const io::Json& report, bool quiet);
/// Formats the measurements, unless `quiet`, and the number of findings of each severity.
std::string summary_table(const io::Json& report, bool quiet);

}  // namespace vaecf::app
