#include "models/cosines.hpp"

#include <cmath>
#include <cstddef>
#include <numeric>

namespace vaecf::models {
namespace {

/// The inner products of the vectors of all I items with themselves and with those of some items.
struct Products {
  Products(std::size_t all_items, std::size_t items) : squares(all_items), with(items, squares) {}
  std::vector<double> squares;            // (I)
  std::vector<std::vector<double>> with;  // (I) for each of the items
};

/// Returns the products of the rows of a tensor.
Products products_of_rows(const io::CheckpointFile& checkpoint, const io::CheckpointFile::TensorInfo& tensor,
                          std::span<const std::int32_t> items) {
  std::vector<std::vector<float>> rows(items.size(), std::vector<float>(tensor.columns));
  for (std::size_t n = 0; n < items.size(); ++n)
    checkpoint.read_rows(tensor.name, items[n], items[n] + 1, rows[n]);
  Products products(static_cast<std::size_t>(tensor.rows), items.size());
  checkpoint.for_each_row(tensor, [&](std::int64_t i, std::span<const float> row) {
    products.squares[i] = std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
    for (std::size_t n = 0; n < items.size(); ++n)
      products.with[n][i] = std::inner_product(row.begin(), row.end(), rows[n].begin(), 0.0);
  });
  return products;
}

/// Returns the products of the columns of a tensor.
Products products_of_columns(const io::CheckpointFile& checkpoint,
                             const io::CheckpointFile::TensorInfo& tensor,
                             std::span<const std::int32_t> items) {
  Products products(static_cast<std::size_t>(tensor.columns), items.size());
  checkpoint.for_each_row(tensor, [&](std::int64_t, std::span<const float> row) {
    for (std::size_t i = 0; i < row.size(); ++i) products.squares[i] += static_cast<double>(row[i] * row[i]);
    for (std::size_t n = 0; n < items.size(); ++n) {
      const float own = row[items[n]];
      for (std::size_t i = 0; i < row.size(); ++i) products.with[n][i] += static_cast<double>(own * row[i]);
    }
  });
  return products;
}

/// Returns the cosines of the items' vectors with those of all items; 0 for a vector of zeros.
std::vector<std::vector<float>> cosines(const Products& products, std::span<const std::int32_t> items) {
  std::vector<std::vector<float>> all(items.size());
  for (std::size_t n = 0; n < items.size(); ++n) {
    const double square = products.squares[items[n]];
    for (std::size_t i = 0; i < products.squares.size(); ++i) {
      const double norms = std::sqrt(square * products.squares[i]);
      all[n].push_back(static_cast<float>(norms > 0.0 ? products.with[n][i] / norms : 0.0));
    }
  }
  return all;
}

}  // namespace

std::vector<std::vector<float>> cosines_of_rows(const io::CheckpointFile& file,
                                                const io::CheckpointFile::TensorInfo& tensor,
                                                std::span<const std::int32_t> items) {
  return cosines(products_of_rows(file, tensor, items), items);
}

std::vector<std::vector<float>> cosines_of_columns(const io::CheckpointFile& file,
                                                   const io::CheckpointFile::TensorInfo& tensor,
                                                   std::span<const std::int32_t> items) {
  return cosines(products_of_columns(file, tensor, items), items);
}

}  // namespace vaecf::models
