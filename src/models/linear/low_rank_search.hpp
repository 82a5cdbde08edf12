#pragma once

#include <vaecf/models/kind.hpp>
#include <vaecf/models/search.hpp>

#include <memory>

namespace vaecf::models {

/// Returns `search`, whose solutions get the low-rank term of `options`; without factors, `search` itself.
/// Its weights are `dense` or not. All of its solutions have the first term. Then all other terms are tried
/// with the best one, those of the same factors together, unless `purpose` is a baseline_of_one. Dense
/// weights contain the term where they are stored. Others are stored with the factors of the term or, with
/// `keep`, replaced by the `keep` largest elements of each column of their sum with the term, which are
/// solutions one by one.
std::unique_ptr<Search> with_low_rank(std::unique_ptr<Search> search, bool dense,
                                      const LowRankOptions& options, bool single);

/// Adds the cost of the term to that of a model whose weights are dense or not.
SolutionCost low_rank_cost(SolutionCost cost, bool dense, const LowRankOptions& options,
                           const io::DatasetFile& dataset);

/// Returns the bytes of a rank for the weights of a model, which are dense or not and take `bytes` without
/// the term. The first basis is made before the model is solved, others after it.
double low_rank_bytes(double bytes, bool dense, const LowRankOptions& options, const io::DatasetFile& dataset,
                      const comm::Communicator& ranks);

}  // namespace vaecf::models
