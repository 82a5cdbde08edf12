#pragma once

#include <string>

namespace vaecf::io {

/// The name under which this process writes what shall become `path`: `path.tmp-HOST-PID`, so that another
/// process can tell whose it is. remove_stale_temporaries() knows it.
std::string temporary_name(const std::string& path);

}  // namespace vaecf::io
