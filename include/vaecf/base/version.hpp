#pragma once

#include <string>

namespace vaecf {

/// Returns the version: "1.0.0".
std::string version_number();

/// Returns the commit of the sources, shortened; empty outside a git checkout.
std::string source_commit();

/// Returns the version with the commit, if known: "1.0.0 (0123abcd)".
std::string version_text();

/// Returns what files state as their writer: "vaecf_dist 1.0.0 (0123abcd)".
std::string written_by();

}  // namespace vaecf
