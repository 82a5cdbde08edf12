#include "checkpoint/known_users.hpp"

#include <vaecf/io/hash.hpp>

#include <cmath>
#include <unordered_set>

#include "checkpoint/trained_on.hpp"

namespace vaecf::checkpoint {
namespace {

std::uint32_t hash_of_user(const std::string& id) {
  return static_cast<std::uint32_t>(io::xxh64(id));
}

}  // namespace

std::vector<std::uint32_t> hash_users(const io::IdList& users) {
  std::vector<std::uint32_t> hashes;
  hashes.reserve(users.size());
  for (std::int64_t i = 0; i < users.size(); ++i) hashes.push_back(hash_of_user(users.text(i)));
  std::ranges::sort(hashes);
  return hashes;
}

KnownUsers find_known_users(const io::CheckpointFile& checkpoint, const io::DatasetFile& dataset) {
  KnownUsers found;
  // The older events of these users come before those that are held out.
  if (text_of(dataset, "split") == "time") return found;
  const std::vector<std::uint32_t> known = checkpoint.dataset().user_hashes;
  if (known.empty() || !dataset.has_ids("train/user_id")) return found;
  std::unordered_set<std::string> train;
  const io::IdList train_ids = dataset.read_ids("train/user_id");
  for (std::int64_t i = 0; i < train_ids.size(); ++i) train.insert(train_ids.text(i));
  std::int64_t held_out = 0;
  for (const auto& [path, count] :
       {std::pair("validation/user_id", &found.validation), {"test/user_id", &found.test}}) {
    if (!dataset.has_ids(path)) continue;
    const io::IdList ids = dataset.read_ids(path);
    for (std::int64_t i = 0; i < ids.size(); ++i) {
      const std::string id = ids.text(i);
      if (train.contains(id)) continue;
      ++held_out;
      *count += std::ranges::binary_search(known, hash_of_user(id)) ? 1 : 0;
    }
  }
  // Different users have equal hashes by chance: a Poisson distribution with this mean.
  const double mean = static_cast<double>(held_out) * static_cast<double>(known.size()) * 0x1p-32;
  found.by_chance = static_cast<double>(found.validation + found.test) <= mean + 5.0 * std::sqrt(mean);
  return found;
}

}  // namespace vaecf::checkpoint
