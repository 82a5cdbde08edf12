#include <vaecf/backend/parameters.hpp>

#include <stdexcept>

namespace vaecf::backend {

int ParameterLayout::find(std::string_view name) const {
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].spec.name == name) return static_cast<int>(t);
  }
  throw std::out_of_range("no tensor is called " + std::string(name));
}

std::int64_t ParameterLayout::parameter_count() const {
  std::int64_t count = 0;
  for (const TensorLayout& tensor : tensors) count += tensor.spec.rows * tensor.spec.columns;
  return count;
}

}  // namespace vaecf::backend
