#pragma once

#include <vaecf/models/kind.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace vaecf::models {

/// Returns `search`, whose solutions get the low-rank term of `options`; without factors, `search` itself.
/// Its weights are `dense` or not. All of its solutions have the first term. Then all other terms are tried
/// with the best one, those of the same factors together, unless `purpose` is a baseline_of_one. Dense
/// weights contain the term where they are stored. Others are stored with the factors of the term or, with
/// `keep`, replaced by the `keep` largest elements of each column of their sum with the term, which are
/// solutions one by one.
std::unique_ptr<Search> with_low_rank(std::unique_ptr<Search> search, bool dense,
                                      const LowRankOptions& options, bool single);

/// Adds the cost of the term to that of a model whose weights are dense or not, without the train users. The
/// first basis is made before the model is solved, others after it.
Cost with_low_rank_cost(Cost cost, bool dense, const LowRankOptions& options, const Workload& work);

/// The keys of the term, which are among shared_keys().
inline constexpr std::string_view low_rank_keys = "model.low_rank.";

/// Returns the keys of the term that have no effect with the others.
std::vector<std::string> low_rank_without_effect(const LowRankOptions& options);

}  // namespace vaecf::models
