#include <algorithm>
#include <memory>
#include <numeric>

#include "data/numpy_random.hpp"
#include "data/philox_stream.hpp"
#include "data/split.hpp"

namespace vaecf::data {
namespace {

std::int32_t target_count(double fraction, std::int32_t n) {
  return static_cast<std::int32_t>(fraction * static_cast<double>(n));
}

}  // namespace

std::vector<std::int32_t> sorted_users(const Events& events, const io::IdList& ids) {
  std::vector<bool> present(static_cast<std::size_t>(ids.size()), false);
  for (const std::int32_t user : events.user) present[static_cast<std::size_t>(user)] = true;
  return sorted_users(present, ids);
}

std::vector<std::int32_t> sorted_users(const std::vector<bool>& present, const io::IdList& ids) {
  std::vector<std::int32_t> users;
  for (std::size_t u = 0; u < present.size(); ++u) {
    if (present[u]) users.push_back(static_cast<std::int32_t>(u));
  }
  const auto by = [&](const auto& values) {
    std::sort(users.begin(), users.end(), [&](std::int32_t a, std::int32_t b) {
      return values[static_cast<std::size_t>(a)] < values[static_cast<std::size_t>(b)];
    });
  };
  if (ids.numeric()) {
    by(ids.numbers);
  } else {
    by(ids.strings);
  }
  return users;
}

SplitDraws liang2018_draws(const std::vector<std::int32_t>& sorted, const PrepareOptions& options) {
  const auto permutation = NumpyRandom(options.seed).permutation(static_cast<std::int32_t>(sorted.size()));
  SplitDraws draws;
  draws.visits.resize(sorted.size());
  for (std::size_t position = 0; position < sorted.size(); ++position) {
    const auto rank = static_cast<std::size_t>(permutation[position]);
    draws.users.push_back(sorted[rank]);
    draws.visits[rank] = static_cast<std::int64_t>(position);
  }
  auto random = std::make_shared<NumpyRandom>(options.seed);
  draws.start_part = [random, seed = options.seed] { *random = NumpyRandom(seed); };
  draws.pick = [random, fraction = options.held_out_fraction](std::int64_t, std::int32_t n) {
    constexpr std::int32_t fewest_events = 5;
    if (n < fewest_events) return std::vector<std::int32_t>();
    return random->choice(n, target_count(fraction, n));
  };
  return draws;
}

std::vector<std::int32_t> shuffled_users(std::vector<std::int32_t> sorted, std::uint32_t seed) {
  constexpr std::uint32_t user_stream = 0xFFFFFFFFu;  // no position is as large
  PhiloxStream(seed, user_stream, PhiloxStream::split_step).shuffle(std::span(sorted));
  return sorted;
}

SplitDraws random_draws(const std::vector<std::int32_t>& sorted, const PrepareOptions& options) {
  SplitDraws draws;
  draws.users = shuffled_users(sorted, options.seed);
  draws.visits.resize(draws.users.size());
  std::iota(draws.visits.begin(), draws.visits.end(), std::int64_t{0});
  draws.start_part = [] {};
  draws.pick = [options](std::int64_t position, std::int32_t n) {
    if (n < 2) return std::vector<std::int32_t>();
    std::vector<std::int32_t> picked(static_cast<std::size_t>(n));
    std::iota(picked.begin(), picked.end(), 0);
    PhiloxStream(options.seed, static_cast<std::uint32_t>(position), PhiloxStream::split_step)
        .shuffle(std::span(picked));
    picked.resize(static_cast<std::size_t>(std::clamp(target_count(options.held_out_fraction, n), 1, n - 1)));
    return picked;
  };
  return draws;
}

SplitDraws strong_draws(const std::vector<std::int32_t>& sorted, const PrepareOptions& options) {
  return options.split == "liang2018" ? liang2018_draws(sorted, options) : random_draws(sorted, options);
}

}  // namespace vaecf::data
