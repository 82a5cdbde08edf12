#include "models/cosines.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace vaecf::models {
namespace {

/// The inner products of the vectors of all I items with themselves and with those of some items.
struct Products {
  Products(std::size_t all_items, std::size_t items) : squares(all_items), with(items, squares) {}
  std::vector<double> squares;            // (I)
  std::vector<std::vector<double>> with;  // (I) for each of the items
};

/// Calls visit(i, row) for every row i of a tensor.
template <class Visit>
void for_each_row(const Model& model, int tensor, const device::TensorSpec& spec, const Visit& visit) {
  const std::int64_t step = std::max<std::int64_t>(1, (std::int64_t{1} << 20) / spec.columns);
  std::vector<float> block;
  for (std::int64_t begin = 0; begin < spec.rows; begin += step) {
    const std::int64_t end = std::min(spec.rows, begin + step);
    block.resize(static_cast<std::size_t>((end - begin) * spec.columns));
    model.read_rows(tensor, {begin, end}, block);
    for (std::int64_t i = begin; i < end; ++i)
      visit(i, view(block, {(i - begin) * spec.columns, (i - begin + 1) * spec.columns}));
  }
}

/// Returns the products of the rows of a tensor.
Products products_of_rows(const Model& model, int tensor, const device::TensorSpec& spec,
                          std::span<const std::int32_t> items) {
  std::vector<std::vector<float>> rows(items.size(), std::vector<float>(spec.columns));
  for (std::size_t n = 0; n < items.size(); ++n) model.read_rows(tensor, {items[n], items[n] + 1}, rows[n]);
  Products products(static_cast<std::size_t>(spec.rows), items.size());
  for_each_row(model, tensor, spec, [&](std::int64_t i, std::span<const float> row) {
    products.squares[i] = std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
    for (std::size_t n = 0; n < items.size(); ++n)
      products.with[n][i] = std::inner_product(row.begin(), row.end(), rows[n].begin(), 0.0);
  });
  return products;
}

/// Returns the products of the columns of a tensor.
Products products_of_columns(const Model& model, int tensor, const device::TensorSpec& spec,
                             std::span<const std::int32_t> items) {
  Products products(static_cast<std::size_t>(spec.columns), items.size());
  for_each_row(model, tensor, spec, [&](std::int64_t, std::span<const float> row) {
    for (std::size_t i = 0; i < row.size(); ++i) products.squares[i] += static_cast<double>(row[i] * row[i]);
    for (std::size_t n = 0; n < items.size(); ++n) {
      const float own = row[items[n]];
      for (std::size_t i = 0; i < row.size(); ++i) products.with[n][i] += static_cast<double>(own * row[i]);
    }
  });
  return products;
}

}  // namespace

void write_cosines(const Model& model, int tensor, std::span<const std::int32_t> items,
                   std::span<float> out) {
  const device::TensorSpec spec = model.tensors().at(tensor);
  const Products products = spec.has_item_rows() ? products_of_rows(model, tensor, spec, items)
                                                 : products_of_columns(model, tensor, spec, items);
  auto to = out.begin();
  for (std::size_t n = 0; n < items.size(); ++n) {
    const double square = products.squares[items[n]];
    for (std::size_t i = 0; i < products.squares.size(); ++i) {
      const double norms = std::sqrt(square * products.squares[i]);
      *to++ = static_cast<float>(norms > 0.0 ? products.with[n][i] / norms : 0.0);
    }
  }
}

}  // namespace vaecf::models
