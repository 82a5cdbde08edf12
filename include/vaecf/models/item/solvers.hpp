#pragma once

#include <vaecf/base/aligned_array.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/device/spd_inverse.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/math/linear_models.hpp>
#include <vaecf/models/item/item_model.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace vaecf::models {

/// The complete train matrix X (users, items), by users and by items, and what is known about the items.
struct Interactions {
  Csr users;          ///< items of each user
  Csr items;          ///< users of each item
  Csr features = {};  ///< features of each item; no rows if the dataset has none
};

/// Reads /train and /items/features. Every rank reads all rows.
Interactions read_interactions(const Context& context, const io::DatasetFile& dataset);
/// Returns `users` and its transpose for `items` items.
Interactions make_interactions(Csr users, std::int64_t items);
/// Returns X with one more row for each feature, whose items are those that have it.
Interactions add_feature_rows(const Interactions& train);

/// Weights w_u = n_u^-b of users with n_u items, whatever their values, and sums of them. Users without items
/// have the weight 0 and do not count in the mean. In CEASE (Jeunen et al., RecSys 2020), a feature that m
/// items have is one more user, who has these items and the weight beta / m times the mean of the users. The
/// weights are rounded to fp32 once; the sums are of these values, in fp64.
struct UserWeights {
  std::vector<float> of_users;     ///< weights of the users, then of the features
  std::vector<double> popularity;  ///< sum over the users of each item
  std::vector<double> of_items;    ///< with its features: the diagonal g of G = X' diag(w) X
  std::vector<double> sums;        ///< with its features: m = X' w, equal to g if all values of X are 1
  double sum = 0.0;
  double mean = 1.0;  ///< mean weight of the users with items; 1 if there are none
};
/// Returns the weights with b = `power` and beta = `feature_weight`. With b = 0 every user with items has the
/// weight 1; with beta = 0 there are no features.
UserWeights weigh_users(const Interactions& train, double power, double feature_weight = 0.0);

/// Returns the weights of item-based nearest neighbors with the similarity math::ItemSimilarity, of
/// G = X' diag(w) X. The default is the cosine. Only the largest similarities of each target, or of each
/// source, are used; of equal ones those with the lower index. Each rank computes a part with `threads`
/// threads. Collective.
SparseWeights solve_item_knn(const Interactions& train, const ItemKnnOptions& options, const Context& context,
                             int threads);
/// Returns the number of weights of item-kNN with `neighbors` neighbors of each item; 0: all.
std::int64_t item_knn_entries(const Interactions& train, std::int64_t neighbors, int threads);

/// One combination of the values of model.ease.
struct EaseValues {
  double l2 = 0.0;
  double dropout = 0.0;
  std::int64_t neighbors = 0;
  double user_power = 0.0;
  double relax = 0.0;
  double kept_weight = 0.0;
  double feature_weight = 0.0;

  /// Returns whether the models of both follow from one inverse.
  bool same_inverse(const EaseValues& other) const {
    return l2 == other.l2 && dropout == other.dropout && neighbors == other.neighbors &&
           user_power == other.user_power && feature_weight == other.feature_weight;
  }
  /// Returns the names and values of the keys with lists, in the order of the search.
  std::vector<std::pair<const char*, double>> named() const {
    return {{"user_power", user_power}, {"feature_weight", feature_weight}, {"l2", l2}, {"dropout", dropout},
            {"relax", relax},           {"kept_weight", kept_weight}};
  }
};

/// Returns all combinations in the order of the search: those with the same inverse follow each other.
std::vector<EaseValues> combinations(const EaseOptions& options);
/// Returns the number of inverses that these combinations need.
std::int64_t inverses_of(const std::vector<EaseValues>& candidates);
/// Returns a name for tables, such as "EASE K 100 b 0.5 features 300 l2 500 p 0.3 relax 0.4".
std::string ease_title(const EaseValues& values);

/// The inverse P of the matrix of EASE (items, items), in the memory in which it was inverted or gathered.
struct Inverse {
  std::int64_t items = 0;
  std::unique_ptr<device::SpdInverse> solved;  ///< this rank's rows, all of them if there is one rank
  AlignedArray<float> gathered;                ///< (items, items); empty if there is one rank

  /// Moves the rows of all ranks to `gathered`. Collective.
  void gather(comm::Communicator& ranks);
  std::span<const float> row(std::int64_t i) const;
};

/// A solution of EASE (Steck, WWW 2019) for one user_power, feature_weight, l2 and dropout, from which the
/// models of all values of relax and kept_weight follow: each multiplies column j of the weights of EASE by a
/// factor h_j (math/linear_models.hpp). With the inverse P, scores are x B = -h / diag(P) (x P), without the
/// terms of the diagonal.
class EaseModel final : public ItemModel {
 public:
  /// The inverse, or the weights of EASE by neighborhoods.
  using Solution = std::variant<Inverse, SparseWeights>;

  /// `columns` has one element per item. Relax and kept_weight are 0.
  EaseModel(Solution solution, double dropout, std::vector<math::LinearColumn> columns);

  /// Makes this the model of `relax` and `kept_weight`, one of which is 0. Not thread-safe.
  void set_columns(double relax, double kept_weight);
  void score(const SparseRow& history, std::span<float> scores) const override;
  float weight(std::int32_t source, std::int32_t target) const override;
  StoredWeights stored() const override;
  bool is_dense() const override { return std::holds_alternative<Inverse>(solution_); }
  /// Returns the inverse or weights, without the factors of the columns.
  const Solution& solution() const { return solution_; }

 private:
  Solution solution_;
  double dropout_;
  std::vector<math::LinearColumn> columns_;
  std::vector<float> scale_;  // h_j, or -h_j / P_jj, contiguous because every user's scores read all of it
};

/// Solves EASE, by neighborhoods if `values.neighbors` > 0, with `threads` threads per rank, and returns the
/// model of `values`. The result does not depend on the number of ranks or threads, unless the ranks
/// determine whether the matrix fits into the memory of the GPUs. Afterwards every rank has all weights: of
/// the inverse 4 I^2 bytes. Returns null on all ranks if the run was requested to stop; a solution ends
/// within a block of the inverse, or a batch of items. Collective. Throws InputError on all ranks if the
/// matrix is not positive definite.
std::unique_ptr<EaseModel> solve_ease(const Interactions& train, const EaseValues& values,
                                      const Context& context, int threads);

}  // namespace vaecf::models
