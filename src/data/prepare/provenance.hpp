#pragma once

#include <vaecf/data/prepare_options.hpp>
#include <vaecf/data/source_options.hpp>
#include <vaecf/io/checkpoint.hpp>

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

namespace vaecf::data {

/// Returns the attributes that describe how a dataset is made: all options that determine its contents,
/// without the bytes of the source. The name is not included, so a dataset is up to date under any name.
io::Attributes provenance_attributes(const SourceOptions& source, const PrepareOptions& options);

/// Returns whether a dataset with the attributes `found` was made with `provenance`, from any source.
bool made_by(const io::Attributes& found, const io::Attributes& provenance);

/// Returns names, sizes and XXH3-128 digests of `paths` for the attribute `source`. Reads all of them; stops
/// early once `stop` is requested, and the result is then meaningless.
std::string describe_sources(const std::vector<std::string>& paths, const std::stop_token& stop = {});

/// Returns the report stored in the intact dataset at `path` if it was made with `provenance` from the
/// current contents of `source_paths` and has this compression level. Otherwise returns an empty string.
std::string stored_report(const std::string& path, const io::Attributes& provenance,
                          const std::vector<std::string>& source_paths, std::int64_t compression);

}  // namespace vaecf::data
