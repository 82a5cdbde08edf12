#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <vaecf.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "app/process_fixture.hpp"
#include "support/hdf5_values.hpp"

namespace vaecf::app {

/// Expects the same bits, also of NaN.
inline void expect_bits(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(std::bit_cast<std::uint32_t>(found[i]) == std::bit_cast<std::uint32_t>(expected[i]) ||
                (std::isnan(found[i]) && std::isnan(expected[i])))
        << i << ": " << found[i] << ", " << expected[i];
  }
}

inline vaecf_rows rows_of(const Csr& rows) {
  return {rows.rows(), rows.offsets.data(), rows.columns.data(),
          rows.values.empty() ? nullptr : rows.values.data()};
}

/// The answer to a request.
struct Lists {
  std::vector<std::int32_t> items, because;
  std::vector<float> scores, contributions;
  bool operator==(const Lists&) const = default;
};

class CInterface : public SmallRun {
 protected:
  ~CInterface() override { vaecf_close(model_); }

  /// Trains a model, and opens its checkpoint.
  void open(const std::string& settings) {
    workspace.succeed("small.yaml --train --quiet" + settings);
    vaecf_close(model_);
    ASSERT_EQ(vaecf_open(checkpoint().c_str(), nullptr, &model_), VAECF_OK) << vaecf_error();
    const io::DatasetFile data(workspace.path("data.h5"));
    users_ = data.read_rows("test/fold_in", {0, data.rows("test/fold_in")});
    request_ = {};
    request_.size = sizeof request_;
    request_.histories = rows_of(users_);
    request_.k = 7;
  }
  std::string checkpoint() const { return workspace.path("runs/small/checkpoints/best.h5"); }

  Lists recommend(const vaecf_request& request) const {
    Lists lists;
    lists.items.resize(static_cast<std::size_t>(request.histories.rows * request.k));
    lists.scores.resize(lists.items.size());
    lists.because.resize(lists.items.size() * static_cast<std::size_t>(request.reasons));
    lists.contributions.resize(lists.because.size());
    EXPECT_EQ(vaecf_recommend(model_, &request, lists.items.data(), lists.scores.data(), lists.because.data(),
                              lists.contributions.data()),
              VAECF_OK)
        << vaecf_error();
    return lists;
  }

  /// Returns the k most similar of each of some items, without reasons.
  Lists similar(const std::vector<std::int32_t>& of, std::int32_t k) const {
    Lists lists;
    lists.items.resize(of.size() * static_cast<std::size_t>(k));
    lists.scores.resize(lists.items.size());
    EXPECT_EQ(vaecf_similar(model_, {std::ssize(of), of.data()}, k, lists.items.data(), lists.scores.data()),
              VAECF_OK)
        << vaecf_error();
    return lists;
  }

  /// Expects the lists that the program writes with these options.
  void expect_lists_of_program(const vaecf_request& request, const std::string& options) const {
    SCOPED_TRACE(options);
    workspace.succeed("recommend --checkpoint " + checkpoint() +
                      " --quiet --split test --output top.h5 --top " + std::to_string(request.k) +
                      " --set train.precision=fp32 " + options);
    const Lists found = recommend(request);
    const std::string top = workspace.path("top.h5");
    EXPECT_EQ(found.items, testing::hdf5_values<std::int32_t>(top, "/item_index"));
    expect_bits(found.scores, testing::hdf5_values<float>(top, "/score"));
    if (request.reasons == 0) return;
    EXPECT_EQ(found.because, testing::hdf5_values<std::int32_t>(top, "/because_index"));
    expect_bits(found.contributions, testing::hdf5_values<float>(top, "/contributions"));
  }

  /// Returns the id of an item.
  std::string id_of(std::int32_t item) const {
    const char* text = nullptr;
    std::size_t length = 0;
    EXPECT_EQ(vaecf_name(model_, item, 0, &text, &length), VAECF_OK) << vaecf_error();
    EXPECT_EQ(length, std::strlen(text));
    return text;
  }

  vaecf_model* model_ = nullptr;
  Csr users_;
  vaecf_request request_ = {};
};

inline constexpr std::array models = {" --set model.type=ease", " --set model.type=item_knn",
                                      " --set model.type=mult_vae",
                                      " --set model.type=elsa --set model.elsa.factors=7"};

}  // namespace vaecf::app
