#include <vaecf/base/error.hpp>
#include <vaecf/base/host.hpp>
#include <vaecf/base/thread_limit.hpp>

#include <vaecf.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <limits>
#include <new>
#include <span>
#include <vector>

#include "capi/arguments.hpp"
#include "capi/model.hpp"

struct vaecf_model {
  vaecf::capi::Model model;
};

namespace vaecf::capi {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

// An array, so that an error needs no memory and a thread leaves nothing behind.
thread_local std::array<char, 2048> last_error{};

vaecf_status fail(vaecf_status status, const char* message) noexcept {
  std::snprintf(last_error.data(), last_error.size(), "%s", message);
  return status;
}

/// Calls `work`. No exception leaves the library.
template <class Work>
vaecf_status guarded(const Work& work) noexcept {
  try {
    work();
    return VAECF_OK;
  } catch (const InputError& error) {
    return fail(VAECF_INVALID, error.what());
  } catch (const std::bad_alloc&) {
    return fail(VAECF_FAILED, "there is not enough memory");
  } catch (const std::exception& error) {
    return fail(VAECF_FAILED, error.what());
  } catch (...) {
    return fail(VAECF_FAILED, "an unknown error");
  }
}

const Model& model_of(const vaecf_model* model) {
  return required(model, "model").model;
}

/// Calls work(users, rows) for the users of one batch of the model after the other.
template <class Work>
void for_each_batch(const run::RecommendRequest& request, const Work& work) {
  for (std::int64_t begin = 0; begin < request.seen.rows(); begin += run::Recommender::batch_users) {
    const Range rows{begin, std::min(request.seen.rows(), begin + run::Recommender::batch_users)};
    const auto part = [&](CsrView all) { return all.rows() == 0 ? all : all.subset(rows); };
    work(
        run::RecommendRequest{
            request.choice, part(request.seen), part(request.features), {}, part(request.excluded)},
        rows);
  }
}

/// Copies a row to one of `width` elements, whose others are `unused`.
template <class T>
void copy_row(std::span<const T> from, T* to, std::int64_t width, T unused) {
  std::fill(std::ranges::copy(from, to).out, to + width, unused);
}

/// Copies rows of `width` elements to rows of `to_width` elements, whose others are `unused`.
template <class T>
void copy_rows(const std::vector<T>& from, std::int64_t width, T* to, std::int64_t to_width, T unused) {
  for (std::int64_t begin = 0; begin < std::ssize(from); begin += width, to += to_width)
    copy_row(view(from, {begin, begin + width}), to, to_width, unused);
}

void recommend(const Model& model, const run::RecommendRequest& request, std::int32_t* items, float* scores,
               std::int32_t* because, float* contributions) {
  const run::Recommender& recommender = model.recommender();
  const std::int64_t k = request.choice.k;
  const std::int64_t reasons = request.choice.reasons;
  const std::int64_t width = recommender.list_length(request.choice);
  for_each_batch(request, [&](const run::RecommendRequest& users, Range rows) {
    std::vector<std::int32_t> best(rows.size() * width), reason(best.size() * reasons);
    std::vector<float> best_scores(best.size()), contribution(reason.size());
    recommender.recommend(users, best, best_scores);
    copy_rows(best, width, items + rows.begin * k, k, -1);
    copy_rows(best_scores, width, scores + rows.begin * k, k, -infinity);
    if (reasons == 0) return;
    recommender.explain(users, best, best_scores, reason, contribution);
    copy_rows(reason, width * reasons, because + rows.begin * k * reasons, k * reasons, -1);
    copy_rows(contribution, width * reasons, contributions + rows.begin * k * reasons, k * reasons,
              not_a_number);
  });
}

void score(const Model& model, const run::RecommendRequest& request, float* scores) {
  const std::int64_t width = model.items();
  for_each_batch(request, [&](const run::RecommendRequest& users, Range rows) {
    std::vector<std::int32_t> items(rows.size() * width);
    std::vector<float> best(items.size());
    model.recommender().recommend(users, items, best);
    // An item is not listed if the weights of a damaged checkpoint give it no finite score.
    std::fill_n(scores + rows.begin * width, rows.size() * width, -infinity);
    for (std::int64_t n = 0; n < std::ssize(items); ++n)
      if (items[n] >= 0) scores[(rows.begin + n / width) * width + items[n]] = best[n];
  });
}

/// Throws InputError unless the model has vectors of `width` elements.
void require_width(const Model& model, std::int32_t width) {
  const std::int64_t has = model.recommender().vector_width();
  if (has == 0) {
    throw InputError(
        "the model has no vectors of items and users; those of a low-rank term would give the term alone");
  }
  if (width != has) throw InputError(format("width: must be {}, got {}", has, width));
}

}  // namespace
}  // namespace vaecf::capi

using namespace vaecf;
using namespace vaecf::capi;

uint32_t vaecf_version(void) {
  return VAECF_VERSION_NUMBER;
}

std::int64_t vaecf_free_memory(void) {
  return host_memory().available;
}

const char* vaecf_error(void) {
  return last_error.data();
}

vaecf_status vaecf_open(const char* path, const char* options_json, vaecf_model** model) {
  return guarded([&] {
    vaecf_model*& opened = required(model, "model");
    opened = nullptr;
    const char* options = options_json == nullptr ? "" : options_json;
    opened = new vaecf_model{Model(&required(path, "path"), options)};
  });
}

void vaecf_close(vaecf_model* model) {
  delete model;
}

const char* vaecf_facts(const vaecf_model* model) {
  const char* facts = nullptr;
  guarded([&] { facts = model_of(model).facts().c_str(); });
  return facts;
}

vaecf_status vaecf_find(const vaecf_model* model, int64_t count, const char* const* ids, int32_t* columns) {
  return guarded([&] {
    const Model& of = model_of(model);
    const auto texts = array(ids, count, "ids");
    const auto to = array(columns, count, "columns");
    for (std::size_t n = 0; n < texts.size(); ++n) to[n] = of.find(&required(texts[n], "an id"));
  });
}

vaecf_status vaecf_name(const vaecf_model* model, int32_t column, int title, const char** text,
                        size_t* length) {
  return guarded([&] {
    const char*& to = required(text, "text");
    std::size_t& size = required(length, "length");
    const std::string& name = model_of(model).name(column, title != 0);
    to = name.c_str();
    size = name.size();
  });
}

vaecf_status vaecf_user_feature_columns(const vaecf_model* model, int64_t count, const char* const* names,
                                        const char* const* values, int32_t* columns, int64_t capacity,
                                        int64_t* used) {
  return guarded([&] {
    const Model& of = model_of(model);
    std::int64_t& number = required(used, "used");
    const auto of_columns = array(names, count, "names");
    const auto texts = array(values, count, "values");
    std::vector<std::pair<std::string, std::string>> pairs;
    for (std::size_t n = 0; n < texts.size(); ++n)
      pairs.emplace_back(&required(of_columns[n], "names"), &required(texts[n], "values"));
    const std::vector<std::int32_t> features = of.hashing().features_of(pairs);
    const auto to = array(columns, capacity, "columns");
    number = std::ssize(features);
    if (number > capacity)
      throw InputError(format("capacity: must be at least {}, got {}", number, capacity));
    std::ranges::copy(features, to.begin());
  });
}

vaecf_status vaecf_recommend(const vaecf_model* model, const vaecf_request* request, int32_t* items,
                             float* scores, int32_t* because, float* contributions) {
  return guarded([&] {
    const Model& of = model_of(model);
    const vaecf_request& asked = checked(request);
    const ThreadLimit limit(asked.threads);
    const run::RecommendOptions choice = choice_of(of, asked);
    const run::RecommendRequest users = users_of(of, asked, choice);
    array(items, users.seen.rows(), "items");
    array(scores, users.seen.rows(), "scores");
    array(because, choice.reasons > 0 ? users.seen.rows() : 0, "because");
    array(contributions, choice.reasons > 0 ? users.seen.rows() : 0, "contributions");
    recommend(of, users, items, scores, because, contributions);
  });
}

vaecf_status vaecf_score(const vaecf_model* model, const vaecf_request* request, float* scores) {
  return guarded([&] {
    const Model& of = model_of(model);
    run::RecommendOptions choice;
    choice.k = static_cast<int>(of.items());
    choice.keep_seen = true;
    const vaecf_request& asked = checked(request);
    const ThreadLimit limit(asked.threads);
    run::RecommendRequest users = users_of(of, asked, choice);
    users.excluded = {};
    array(scores, users.seen.rows(), "scores");
    score(of, users, scores);
  });
}

vaecf_status vaecf_similar(const vaecf_model* model, vaecf_columns items, int32_t k, int32_t* similar,
                           float* scores) {
  return guarded([&] {
    const Model& of = model_of(model);
    const auto columns = columns_of(items, of.items(), "items");
    if (k < 1) throw InputError(format("k: must be 1 or more, got {}", k));
    array(similar, items.count, "similar");
    array(scores, items.count, "scores");
    const auto lists = of.recommender().similar(columns, k);
    for (std::size_t n = 0; n < lists.size(); ++n) {
      copy_row<std::int32_t>(lists[n].items, similar + n * k, k, -1);
      copy_row<float>(lists[n].scores, scores + n * k, k, -infinity);
    }
  });
}

vaecf_status vaecf_item_vectors(const vaecf_model* model, int64_t first, int64_t count, int32_t width,
                                float* vectors) {
  return guarded([&] {
    const Model& of = model_of(model);
    require_width(of, width);
    array(vectors, count, "vectors");
    if (first < 0 || first > of.items() - count)
      throw InputError(format("first: must be 0 to {}, got {}", of.items() - count, first));
    of.recommender().item_vectors({first, first + count}, {vectors, static_cast<std::size_t>(count * width)});
  });
}

vaecf_status vaecf_user_vectors(const vaecf_model* model, const vaecf_request* request, int32_t width,
                                float* vectors) {
  return guarded([&] {
    const Model& of = model_of(model);
    require_width(of, width);
    const run::RecommendOptions no_choice;
    const vaecf_request& asked = checked(request);
    const ThreadLimit limit(asked.threads);
    const run::RecommendRequest users = users_of(of, asked, no_choice);
    array(vectors, users.seen.rows(), "vectors");
    of.recommender().user_vectors(users, {vectors, static_cast<std::size_t>(users.seen.rows() * width)});
  });
}
