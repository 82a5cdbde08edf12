#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/model/model.hpp>
#include <vaecf/train/session.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vaecf::train {

class Popularity;

struct RecommendOptions {
  int k = 10;                        ///< items for each user
  bool keep_seen = false;            ///< users may be recommended what they have
  std::vector<std::uint8_t> offers;  ///< (I): 0 for items that nobody gets; empty: all may be recommended
};

/// The top items of users by the model of a checkpoint, whichever device it was trained on. One rank alone,
/// whatever world it lives in.
class Recommender {
 public:
  /// So many users go through the model together, counted from the first of a call: on the CPU the same users
  /// together get the same bits, on any number of threads.
  static constexpr std::int64_t users_at_a_time = 256;

  /// `dataset` is the one that the checkpoint was trained on; it and the services outlive this object.
  /// InputError where it is another one, the model does not fit, or no item may be recommended.
  Recommender(const SessionOptions& options, const Services& services, const std::string& checkpoint,
              const io::DatasetFile& dataset, RecommendOptions choice);
  ~Recommender();
  Recommender(const Recommender&) = delete;
  Recommender& operator=(const Recommender&) = delete;

  /// Items for each user: k, or all that may be recommended where those are fewer.
  std::int64_t width() const { return std::min<std::int64_t>(choice_.k, offered_); }
  /// The checkpoint's checksum.
  std::uint64_t checkpoint() const { return checksum_; }
  /// How many features of users the model knows; 0: none.
  std::int64_t features() const { return model_->features(); }
  /// Best first, ties to the lower item: items and scores, (rows, width). Where none is left for a place,
  /// item -1 and score -inf. Users with neither an item nor a feature get the items that most train users
  /// hold, with scores nan. `features` has rows for the same users, or none at all. InputError where items or
  /// features are named that the model does not have.
  void recommend(CsrView seen, CsrView features, std::span<std::int32_t> items, std::span<float> scores);

 private:
  const io::DatasetFile& dataset_;
  RecommendOptions choice_;
  std::unique_ptr<comm::Communicator> self_;
  Services alone_;
  std::int64_t items_ = 0;
  std::int64_t offered_ = 0;
  std::uint64_t checksum_ = 0;
  std::vector<std::int32_t> excluded_;  // ascending
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<Popularity> popularity_;  // made for the first user who needs it: a pass over all of /train
};

}  // namespace vaecf::train
