// Fuzzes requests to the C interface, with a small model: every request is answered or refused with a
// message, and answers contain items of the model only.
#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/io/checkpoint.hpp>

#include <vaecf.h>

#include <vector>

#include "fuzz/support.hpp"

namespace vaecf::fuzz {
namespace {

constexpr std::int64_t item_count = 6;

/// Opens an item-kNN model, whose weights from an item are those to its two neighbors.
vaecf_model* open_model(const std::filesystem::path& folder) {
  config::Config config = config::parse("model: {type: item_knn}", "config");
  checkpoint::TrainingState state;
  state.configuration = config::dump(config);
  state.items = item_count;
  state.new_items = 1;
  state.dataset_checksum = "none";
  std::vector<std::int64_t> indptr{0};
  std::vector<std::int32_t> indices;
  std::vector<float> data;
  for (std::int32_t i = 0; i < item_count; ++i) {
    for (const std::int32_t j : {i - 1, i + 1}) {
      if (j < 0 || j >= item_count) continue;
      indices.push_back(j);
      data.push_back(0.25F * static_cast<float>(i + 1));
    }
    indptr.push_back(static_cast<std::int64_t>(indices.size()));
  }
  const std::vector<io::ArraySource> arrays = {
      {"weights/items/indptr", indptr}, {"weights/items/indices", indices}, {"weights/items/data", data}};
  const io::DatasetSummary summary{io::numbers_from(10, item_count), {}, {3, 1, 2, 2, 1, 0}, {}};
  const std::string path = folder / "model.h5";
  io::write_checkpoint(path, checkpoint::checkpoint_attributes(config.options, state), {}, arrays, &summary);
  vaecf_model* model = nullptr;
  require(vaecf_open(path.c_str(), nullptr, &model) == VAECF_OK, vaecf_error());
  return model;
}

/// Rows of random columns, most of which are valid. The arrays are as long as `begin` says.
struct RandomRows {
  RandomRows(Input& input, std::int64_t rows, std::int32_t width) {
    std::int64_t end = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      std::int32_t column = input.number<std::int32_t>(-1, 2);
      for (int n = input.number(0, 3); n > 0; --n) {
        columns.push_back(column);
        column += input.number<std::int32_t>(0, 3);
      }
      end = std::ssize(columns) - input.number(0, 20) / 20;
      begin.push_back(end);
    }
    if (input.number(0, 15) == 15) values.assign(columns.size() + 1, input.any<float>());
    if (input.number(0, 3) > 0)
      for (std::int32_t& each : columns) each = std::clamp(each, 0, width - 1);
    columns.push_back(0);  // begin may end one earlier, but never later
  }
  vaecf_rows view() const {
    return {std::ssize(begin) - 1, begin.data(), columns.data(), values.empty() ? nullptr : values.data()};
  }
  std::vector<std::int64_t> begin{0};
  std::vector<std::int32_t> columns;
  std::vector<float> values;
};

std::vector<std::int32_t> some_columns(Input& input) {
  std::vector<std::int32_t> columns;
  for (int n = input.number(0, 5); n > 0; --n) columns.push_back(input.number<std::int32_t>(-1, 6) % 7);
  return columns;
}

void require_status(vaecf_status status) {
  require(status == VAECF_OK || (status == VAECF_INVALID && std::strlen(vaecf_error()) > 5),
          "a request is answered, or refused with a message");
}

}  // namespace

void run(std::span<const std::uint8_t> bytes, const std::filesystem::path& folder) {
  static vaecf_model* const model = open_model(folder);
  Input input(bytes);
  const auto users = input.number<std::int64_t>(0, 4);
  const RandomRows histories(input, users, item_count);
  const RandomRows excluded(input, input.coin() ? users : input.number<std::int64_t>(0, 4), item_count);
  const RandomRows features(input, input.number<std::int64_t>(0, 9) / 9, item_count);
  const RandomRows categories(input, input.coin() ? item_count : input.number<std::int64_t>(0, 7),
                              item_count);
  const std::vector<std::int32_t> included = some_columns(input), left_out = some_columns(input);
  const vaecf_columns include{std::ssize(included), included.data()};
  const vaecf_columns exclude{std::ssize(left_out), left_out.data()};
  const vaecf_rows limited = categories.view();
  vaecf_request request = {};
  request.size = input.number(0, 50) == 50 ? input.any<std::uint16_t>() : sizeof request;
  request.histories = histories.view();
  request.exclude_of_user = excluded.view();
  request.user_features = features.view();
  request.include = input.coin() ? &include : nullptr;
  request.exclude = input.coin() ? &exclude : nullptr;
  request.categories = input.coin() ? &limited : nullptr;
  request.at_most = input.number(0, 3);
  request.k = input.number(0, 20) - 1;
  request.keep_seen = input.number(0, 20) / 10;
  request.reasons = input.number(0, 8) - 1;
  request.threads = input.number(0, 20) - 1;
  // Exactly as long as the header states.
  const auto places = static_cast<std::size_t>(users * std::max(0, request.k));
  const std::size_t of_reasons = places * static_cast<std::size_t>(std::max(0, request.reasons));
  std::vector<std::int32_t> items(places), because(of_reasons);
  std::vector<float> scores(places), contributions(of_reasons);
  const vaecf_status status =
      vaecf_recommend(model, &request, items.data(), scores.data(), because.data(), contributions.data());
  require_status(status);
  for (std::size_t n = 0; status == VAECF_OK && n < places; ++n)
    require(items[n] >= -1 && items[n] < item_count, "an item of the model, or none");
  std::vector<float> all(static_cast<std::size_t>(users * item_count));
  require_status(vaecf_score(model, &request, all.data()));
  const auto k = std::clamp(request.k, 0, 7);
  std::vector<std::int32_t> similar(included.size() * static_cast<std::size_t>(k));
  std::vector<float> similarities(similar.size());
  require_status(vaecf_similar(model, include, k, similar.data(), similarities.data()));
  const std::string options = input.text(40);
  vaecf_model* other = nullptr;
  if (!options.empty()) {
    // A device that this machine lacks is an error at run time.
    const vaecf_status opened = vaecf_open((folder / "model.h5").c_str(), options.c_str(), &other);
    require(opened == VAECF_OK || std::strlen(vaecf_error()) > 5, "an error has a message");
  }
  vaecf_close(other);
}

}  // namespace vaecf::fuzz
