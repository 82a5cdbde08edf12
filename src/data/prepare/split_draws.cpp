#include "data/prepare/split_draws.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/io/hash.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

#include "data/random.hpp"

namespace vaecf::data {
namespace {

// Streams of draws that belong to no row, larger than any row.
constexpr std::uint32_t user_stream = 0xFFFFFFFFu;

constexpr std::uint32_t item_stream = 0xFFFFFFFEu;

PhiloxStream stream_of_row(const PrepareOptions& options, std::int64_t row) {
  return {options.seed, static_cast<std::uint32_t>(row), PhiloxStream::split_step};
}

/// Sorts users or items by ascending id.
void sort_by_id(std::vector<std::int32_t>& indices, const io::IdList& ids) {
  const auto sort_by = [&](const auto& values) {
    std::ranges::sort(
        indices, {}, [&](std::int32_t index) -> const auto& { return values[index]; });
  };
  if (ids.numeric()) {
    sort_by(ids.numbers);
  } else {
    sort_by(ids.strings);
  }
}

}  // namespace

std::vector<std::int32_t> sorted_users(const std::vector<std::int32_t>& events_of, const io::IdList& ids) {
  std::vector<std::int32_t> users;
  for (std::size_t u = 0; u < events_of.size(); ++u)
    if (events_of[u] > 0) users.push_back(static_cast<std::int32_t>(u));
  sort_by_id(users, ids);
  return users;
}

std::vector<std::int32_t> draw_new_items(std::span<const std::int32_t> items, const io::IdList& ids,
                                         const PrepareOptions& options) {
  std::vector<std::int32_t> drawn(items.begin(), items.end());
  sort_by_id(drawn, ids);
  PhiloxStream(options.seed, item_stream, PhiloxStream::split_step).shuffle(std::span(drawn));
  drawn.resize(static_cast<std::size_t>(options.new_items * static_cast<double>(items.size())));
  return drawn;
}

void sort_new_items(std::span<std::int32_t> items, const io::IdList& ids) {
  std::vector<std::pair<std::uint64_t, std::int32_t>> hashes;
  for (const std::int32_t item : items) hashes.emplace_back(io::xxh64(ids.text(item), 0), item);
  std::ranges::sort(hashes);
  std::ranges::transform(hashes, items.begin(), [](const auto& hash) { return hash.second; });
}

std::vector<std::int32_t> shuffled_users(std::vector<std::int32_t> sorted, std::uint32_t seed) {
  PhiloxStream(seed, user_stream, PhiloxStream::split_step).shuffle(std::span(sorted));
  return sorted;
}

StrongOrder strong_order(const std::vector<std::int32_t>& sorted, const PrepareOptions& options) {
  StrongOrder order;
  order.pick_order.resize(sorted.size());
  if (options.split == SplitMethod::random) {
    order.users = shuffled_users(sorted, options.seed);
    std::iota(order.pick_order.begin(), order.pick_order.end(), std::int64_t{0});
    return order;
  }
  const auto permutation = NumpyRandom(options.seed).permutation(static_cast<std::int32_t>(sorted.size()));
  for (std::size_t row = 0; row < sorted.size(); ++row) {
    const auto rank = static_cast<std::size_t>(permutation[row]);
    order.users.push_back(sorted[rank]);
    order.pick_order[rank] = static_cast<std::int64_t>(row);
  }
  return order;
}

void draw_targets(const StrongOrder& order, Range part, const PrepareOptions& options,
                  std::span<const std::int64_t> first, std::vector<bool>& is_target) {
  const bool numpy = options.split == SplitMethod::liang2018;
  const std::int32_t min_events = numpy ? 5 : 2;
  NumpyRandom random(options.seed);
  std::vector<std::int32_t> picked;
  for (const std::int64_t row : order.pick_order) {
    if (row < part.begin || row >= part.end) continue;
    const auto k = static_cast<std::size_t>(row - part.begin);
    const auto n = static_cast<std::int32_t>(first[k + 1] - first[k]);
    if (n < min_events) continue;
    const auto count = static_cast<std::int32_t>(options.held_out_fraction * static_cast<double>(n));
    if (numpy) {
      picked = random.choice(n, count);
    } else {
      picked.resize(n);
      std::iota(picked.begin(), picked.end(), 0);
      stream_of_row(options, row).shuffle(std::span(picked));
      picked.resize(std::clamp(count, 1, n - 1));
    }
    for (const std::int32_t index : picked) is_target[first[k] + index] = true;
  }
}

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

void draw_weak_split(std::int64_t row, std::span<Event> events, WeakParts parts,
                     const PrepareOptions& options) {
  const std::int64_t n = std::ssize(events);
  std::vector<std::int32_t> order(n);  // the first ones are held out
  std::iota(order.begin(), order.end(), 0);
  if (options.held_out == HeldOut::random) {
    stream_of_row(options, row).shuffle(std::span(order));
  } else {
    std::reverse(order.begin(), order.end());
    std::ranges::stable_sort(order, std::ranges::greater(), [&](std::int32_t e) { return events[e].time; });
  }
  for (Event& event : events) event.part = SplitPart::train;
  const double share = options.split == SplitMethod::leave_one_out ? 0.0 : options.held_out_fraction;
  const auto count =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(share * static_cast<double>(n)));  // of each part
  std::int64_t left = n;
  auto next = order.begin();
  const auto hold_out = [&](SplitPart part) {
    for (std::int64_t k = std::min(count, left - 1); k > 0; --k, --left) events[*next++].part = part;
  };
  if (parts.test) hold_out(SplitPart::test);
  if (parts.validation) hold_out(SplitPart::validation);
}

}  // namespace vaecf::data
