#include "data/prepare/stable_split.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/digest.hpp>

#include <algorithm>
#include <utility>

namespace vaecf::data {

StableOrder stable_order(std::span<const std::int32_t> users, const io::IdList& ids,
                         const PrepareOptions& options) {
  std::array<std::vector<std::int32_t>, 3> parts;
  for (const std::int32_t user : users) {
    const double h = static_cast<double>(io::xxh64(ids.text(user), options.seed)) * 0x1p-64;
    const std::size_t part = h < options.test_fraction                                 ? 2
                             : h < options.test_fraction + options.validation_fraction ? 1
                                                                                       : 0;
    parts[part].push_back(user);
  }
  if (parts[0].empty()) {
    throw InputError(format(
        "data.prepare.split: stable leaves none of the {} users to train on; decrease data.prepare.validation_fraction and data.prepare.test_fraction, or relax the filters",
        users.size()));
  }
  StableOrder order;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    order.counts[part] = std::ssize(parts[part]);
    order.users.insert(order.users.end(), parts[part].begin(), parts[part].end());
  }
  return order;
}

std::vector<bool> stable_targets(const std::string& user, std::span<const std::string> items,
                                 const PrepareOptions& options) {
  std::vector<bool> is_target(items.size(), false);
  if (items.size() < 2) return is_target;
  std::vector<std::pair<std::uint64_t, std::size_t>> hashes;
  for (std::size_t i = 0; i < items.size(); ++i)
    hashes.emplace_back(io::xxh64(user + '\0' + items[i], options.seed), i);
  const auto fraction =
      static_cast<std::size_t>(options.held_out_fraction * static_cast<double>(items.size()));
  const std::size_t count = std::max<std::size_t>(1, fraction);
  std::ranges::nth_element(hashes, hashes.begin() + static_cast<std::ptrdiff_t>(count));
  for (std::size_t i = 0; i < count; ++i) is_target[hashes[i].second] = true;
  return is_target;
}

}  // namespace vaecf::data
