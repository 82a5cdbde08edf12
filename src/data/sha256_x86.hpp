#pragma once

#include <cstdint>

namespace vaecf::data {

/// Whether this processor has instructions for SHA-256 (SHA-NI), and this build knows them.
bool has_sha_instructions();

/// One block of 64 bytes with these instructions. `constants`: the 64 of the standard.
void compress_by_instructions(std::uint32_t* state, const std::uint32_t* constants,
                              const unsigned char* block);

}  // namespace vaecf::data
