#include <vaecf/comm/communicator.hpp>

#include <algorithm>

namespace vaecf::comm {

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& mine) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto size = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> sizes(ranks);
  communicator.all_gather(std::span<const std::int64_t>(&size, 1), std::span<std::int64_t>(sizes));
  const auto longest = static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end()));
  std::vector<char> part(longest);
  std::copy(mine.begin(), mine.end(), part.begin());
  std::vector<char> all(ranks * longest);
  communicator.all_gather(std::span<const char>(part), std::span<char>(all));
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    texts.emplace_back(all.data() + rank * longest, static_cast<std::size_t>(sizes[rank]));
  }
  return texts;
}

}  // namespace vaecf::comm
