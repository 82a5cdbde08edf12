#pragma once

#include <string>
#include <string_view>

namespace vaecf::io {

/// Makes `path` hold `text`, whole or not at all: an older file stays where it cannot be. Makes the folder
/// where need be. RunError where the disk is full or not writable; nothing half-written is left then.
void write_text_file(const std::string& path, std::string_view text);

}  // namespace vaecf::io
