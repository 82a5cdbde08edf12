#include "nccl_agreement.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <string_view>
#include <vector>

namespace vaecf::comm {
namespace {

using Field = std::array<char, 256>;

Field to_field(const std::string& text) {
  Field field{};
  std::copy_n(text.begin(), std::min(text.size(), field.size() - 1), field.begin());
  return field;
}

bool find_shared_gpu(Communicator& control, const std::string& device_id, bool may_share) {
  const Field mine = to_field(device_id);
  std::vector<char> all(mine.size() * static_cast<std::size_t>(control.size()));
  control.all_gather(std::span<const char>(mine), std::span<char>(all));
  std::set<std::string_view> seen;
  for (std::size_t at = 0; at < all.size(); at += mine.size()) {
    if (seen.insert(all.data() + at).second) continue;
    if (may_share) return true;
    throw InputError(
        vaecf::format("two ranks compute on {}: start as many ranks per host as it has GPUs; "
                      "distributed.allow_shared_gpu: true lets ranks share one, for tests without regard to "
                      "speed",
                      all.data() + at));
  }
  return false;
}

void require_agreement(Communicator& control, const std::string& text) {
  const Field mine = to_field(text);
  Field root = mine;
  control.broadcast(std::span<char>(root), 0);
  const auto first =
      control.all_reduce<std::int64_t>(root == mine ? control.size() : control.rank(), Reduction::min);
  if (first == control.size()) return;
  Field other = mine;
  control.broadcast(std::span<char>(other), static_cast<int>(first));
  throw InputError(vaecf::format(
      "rank {} has {}, rank 0 has {}, and they would wait for each other for ever: give all ranks the same "
      "library and environment (mpirun -x NCCL_ALGO)",
      first, other.data(), root.data()));
}

}  // namespace

NcclSettings agree_on_nccl(Communicator& control, const NcclOptions& options, const std::string& device_id,
                           int version) {
  NcclSettings settings;
  settings.algorithm = options.algorithm;
  settings.deterministic = options.deterministic;
  settings.shared_gpu = find_shared_gpu(control, device_id, options.allow_shared_gpu);
  settings.version = version;
  settings.rank = control.rank();
  set_nccl_environment(settings);
  require_agreement(control, nccl_agreement(version));
  return settings;
}

}  // namespace vaecf::comm
