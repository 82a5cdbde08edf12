#pragma once

#include <vaecf/io/checkpoint.hpp>

#include <string>

namespace vaecf::app {

// What `inspect` prints. InputError where the file cannot be read.
/// Sizes, density, how many items users have and users items, where it came from.
std::string describe_dataset(const std::string& path);
/// How far it is, what it holds; `verbose` also its configuration and every attribute and tensor.
std::string describe_checkpoint(const std::string& path, bool verbose);
/// The curves of a run by its metrics.jsonl: `metric`, by default the one that its configuration selects by,
/// and the loss, over epochs.
std::string describe_run(const std::string& path, const std::string& metric);

/// An attribute as one text.
std::string text_of(const io::Attribute& attribute);

}  // namespace vaecf::app
