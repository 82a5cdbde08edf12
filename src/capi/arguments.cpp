#include "capi/arguments.hpp"

#include <cmath>
#include <limits>

namespace vaecf::capi {
namespace {

constexpr std::int32_t max_reasons = 1000;

/// Returns rows whose columns are in [0, width). Throws InputError for others, or if they have values and
/// `may_have_values` is not set.
CsrView rows_of(const vaecf_rows& rows, std::int64_t width, bool may_have_values, const char* name) {
  if (rows.rows < 0) throw InputError(format("{}: rows must not be negative, got {}", name, rows.rows));
  if (rows.rows == 0) return {};
  const std::span begin(&required(rows.begin, name), static_cast<std::size_t>(rows.rows) + 1);
  if (begin.front() != 0) throw InputError(format("{}: begin must start at 0, got {}", name, begin.front()));
  for (std::size_t r = 0; r + 1 < begin.size(); ++r)
    if (begin[r + 1] < begin[r]) throw InputError(format("{}: begin must not descend, at row {}", name, r));
  const CsrView view{
      begin, array(rows.columns, begin.back(), name),
      rows.values == nullptr ? std::span<const float>() : array(rows.values, begin.back(), name)};
  for (std::int64_t r = 0; r < view.rows(); ++r) {
    std::int64_t before = -1;
    for (const std::int32_t column : view.row(r)) {
      if (column <= before || column >= width) {
        throw InputError(
            format("{}: columns of a row must be ascending, unique and 0 to {}, got {} after {} in row {}",
                   name, width - 1, column, before, r));
      }
      before = column;
    }
  }
  if (!view.values.empty() && !may_have_values)
    throw InputError(format("{}: values must be NULL, because all count the same", name));
  for (const float value : view.values)
    if (!std::isfinite(value) || value <= 0.0F)
      throw InputError(format("{}: values must be finite and above 0, got {}", name, value));
  return view;
}

}  // namespace

std::span<const std::int32_t> columns_of(const vaecf_columns& columns, std::int64_t width, const char* name) {
  const auto all = array(columns.columns, columns.count, name);
  for (const std::int32_t column : all)
    if (column < 0 || column >= width)
      throw InputError(format("{}: columns must be 0 to {}, got {}", name, width - 1, column));
  return all;
}

const vaecf_request& checked(const vaecf_request* request) {
  if (required(request, "request").size != sizeof(vaecf_request)) {
    throw InputError(format("request: size must be {}, got {}; compile with the header of this library",
                            sizeof(vaecf_request), request->size));
  }
  if (request->threads < 0) throw InputError(format("threads: must be 0 or more, got {}", request->threads));
  return *request;
}

run::RecommendRequest users_of(const Model& model, const vaecf_request& request,
                               const run::RecommendOptions& choice) {
  const CsrView seen = rows_of(request.histories, model.items(), model.weighted(), "histories");
  const auto of_users = [&](const vaecf_rows& rows, std::int64_t width, const char* name) {
    const CsrView view = rows_of(rows, width, false, name);
    if (view.rows() == 0 || view.rows() == seen.rows()) return view;
    throw InputError(
        format("{}: must have a row for each of {} users, or none, got {}", name, seen.rows(), view.rows()));
  };
  run::RecommendRequest users{choice, seen};
  users.features = of_users(request.user_features, model.recommender().features(), "user_features");
  users.excluded = of_users(request.exclude_of_user, model.items(), "exclude_of_user");
  return users;
}

run::RecommendOptions choice_of(const Model& model, const vaecf_request& request) {
  if (request.k < 1) throw InputError(format("k: must be 1 or more, got {}", request.k));
  if (request.keep_seen != 0 && request.keep_seen != 1)
    throw InputError(format("keep_seen: must be 0 or 1, got {}", request.keep_seen));
  if (request.reasons < 0 || request.reasons > max_reasons)
    throw InputError(format("reasons: must be 0 to {}, got {}", max_reasons, request.reasons));
  if (request.reasons > 0 && !model.explains())
    throw InputError("reasons: the device must compute in fp32; open the model without train.precision");
  run::RecommendOptions choice;
  choice.k = request.k;
  choice.keep_seen = request.keep_seen == 1;
  choice.reasons = request.reasons;
  const auto some = [&](const vaecf_columns* columns, const char* name) {
    return columns == nullptr ? std::span<const std::int32_t>() : columns_of(*columns, model.items(), name);
  };
  choice.allowed_items =
      run::allowed_items(model.items(), model.new_items(), request.include != nullptr,
                         some(request.include, "include"), some(request.exclude, "exclude"));
  if (request.categories != nullptr) {
    const CsrView categories = rows_of(*request.categories, std::int64_t{1} << 31, false, "categories");
    if (categories.rows() != model.items()) {
      throw InputError(format("categories: must have a row for each of {} items, got {}", model.items(),
                              categories.rows()));
    }
    if (request.at_most < 1) throw InputError(format("at_most: must be 1 or more, got {}", request.at_most));
    for (std::int64_t item = 0; item < categories.rows(); ++item)
      choice.categories.append(categories.sparse_row(item));
    choice.at_most = request.at_most;
  }
  return choice;
}

}  // namespace vaecf::capi
