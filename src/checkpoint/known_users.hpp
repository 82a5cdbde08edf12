#pragma once

#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <vector>

namespace vaecf::checkpoint {

/// Returns the lower 32 bits of XXH64 (seed 0) of the users' ids as text, ascending.
std::vector<std::uint32_t> hash_users(const io::IdList& users);

/// Numbers of held-out users on which a checkpoint was trained.
struct KnownUsers {
  std::int64_t validation = 0;
  std::int64_t test = 0;
  bool by_chance = true;  ///< so few have equal hashes without being the same users
};

/// Looks up the validation and test users of `dataset` in the checkpoint, by their hashes. Users of /train
/// are not counted, and none of a split by time: these train on held-out users themselves. Throws InputError
/// if a file is not valid.
KnownUsers find_known_users(const io::CheckpointFile& checkpoint, const io::DatasetFile& dataset);

}  // namespace vaecf::checkpoint
