#include "device/cpu/layers/squared_slice.hpp"

#include "device/cpu/layers/product_slice.hpp"

namespace vaecf::cpu {
namespace {

/// A tile's logits are computed, replaced by gradients and used by the products while they are in cache, so
/// there is no (B, I) array.
class SquaredSlice : public ProductSlice {
 public:
  SquaredSlice(std::span<const std::unique_ptr<GemmEngine>> engines, Workspace& workspace,
               const OutputSlice& slice)
      : ProductSlice(engines, workspace, slice) {
    w_.sum.reserve(tiles_ * width_);
    for (PerThread& t : w_.threads) t.error.reserve(width_);
  }

  void forward() override { load_hidden(); }

  double loss() const override {
    double total = 0.0;
    for (std::int64_t u = 0; u < users_.size(); ++u) {
      for (std::int64_t t = 0; t < tiles_; ++t) total += static_cast<double>(w_.sum[t * width_ + u]);
    }
    return total / static_cast<double>(batch_.items.all);
  }

 private:
  void start_tile(int thread, std::int64_t t) override {
    forward_product(thread, t);
    std::fill_n(w_.sum.data() + t * width_, width_, 0.0F);
  }

  void gradient_of_item(int thread, std::int64_t t, std::int64_t r, float* row) override {
    const std::int64_t item = t * tile_items + r;
    float* error = w_.threads[thread].error.data();
    sigmoid_of_row(row, bias_[item], error, users_.size());
    for_users_of(item, [&](std::int64_t u) { error[u] -= 1.0F; });
    squared_error_of_row(row, error, 1.0F / static_cast<float>(batch_.items.all), w_.sum.data() + t * width_,
                         users_.size());
    std::fill(row + users_.size(), row + width_, 0.0F);
  }
};

}  // namespace

std::unique_ptr<LossSlice> make_squared_slice(std::span<const std::unique_ptr<GemmEngine>> engines,
                                              Workspace& workspace, const OutputSlice& slice) {
  return std::make_unique<SquaredSlice>(engines, workspace, slice);
}

}  // namespace vaecf::cpu
