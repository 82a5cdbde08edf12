#include <vaecf/base/error.hpp>
#include <vaecf/math/ranking.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/run/similar.hpp>

#include <limits>
#include <string>

namespace vaecf::run {

std::vector<SimilarItems> similar_items(const io::CheckpointFile& checkpoint,
                                        std::span<const std::int32_t> items, int k) {
  const auto type = checkpoint.attribute<std::string>("model_type");
  const models::Kind* kind = models::find_kind(type);
  if (kind == nullptr)
    throw InputError(format("{}: contains a model of the unknown type {}", checkpoint.path(), excerpt(type)));
  std::vector<std::vector<float>> scores = kind->similarities(checkpoint, items);
  std::vector<SimilarItems> lists(items.size());
  for (std::size_t n = 0; n < items.size(); ++n) {
    scores[n][items[n]] = -std::numeric_limits<float>::infinity();
    lists[n].items = math::top_k(scores[n], k);
    for (const std::int32_t other : lists[n].items) lists[n].scores.push_back(scores[n][other]);
  }
  return lists;
}

}  // namespace vaecf::run
