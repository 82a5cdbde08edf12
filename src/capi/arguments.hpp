// The arguments of the C interface, checked.
#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/run/recommender.hpp>

#include <vaecf.h>

#include <cstdint>
#include <span>

#include "capi/model.hpp"

namespace vaecf::capi {

/// Throws InputError if a pointer is null although its array has `size` elements.
template <class T>
std::span<T> array(T* pointer, std::int64_t size, const char* name) {
  if (size < 0)
    throw InputError(format("{}: the number of elements must not be negative, got {}", name, size));
  if (size > 0 && pointer == nullptr) throw InputError(format("{}: must not be NULL", name));
  return {pointer, static_cast<std::size_t>(size)};
}

/// Throws InputError if `pointer` is null.
template <class T>
T& required(T* pointer, const char* name) {
  if (pointer == nullptr) throw InputError(format("{}: must not be NULL", name));
  return *pointer;
}

/// Returns columns in [0, width). Throws InputError for others.
std::span<const std::int32_t> columns_of(const vaecf_columns& columns, std::int64_t width, const char* name);

/// Returns the request. Throws InputError unless it is one of this version.
const vaecf_request& checked(const vaecf_request* request);

/// Returns the request's users. Throws InputError if they are not valid for the model. `choice` must outlive
/// the result.
run::RecommendRequest users_of(const Model& model, const vaecf_request& request,
                               const run::RecommendOptions& choice);

/// Returns what is recommended to the request's users. Throws InputError if it is not valid.
run::RecommendOptions choice_of(const Model& model, const vaecf_request& request);

}  // namespace vaecf::capi
