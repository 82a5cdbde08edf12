#pragma once

#include <vaecf/backend/cpu/storage.hpp>

#include <cstdint>
#include <span>

namespace vaecf::cpu {

/// Some users of a batch in front of the output layer. Users are counted from the slice's first.
class OutputSlice {
 public:
  OutputSlice(int threads, const Activations& hidden, const Batch& batch, const Parameters& parameters,
              backend::Layer layer, Range users)
      : threads_(threads),
        hidden_(hidden),
        batch_(batch),
        users_(users),
        k_(hidden.columns()),
        items_(parameters.layout().tensors[layer.weight].spec.columns),
        bias_(parameters.weights(layer.bias)),
        weights_(parameters.weights(layer.weight)),
        weights16_(parameters.shadow().data()) {}

 protected:
  const float* hidden(std::int64_t user) const { return hidden_.row(users_.begin + user); }
  std::span<const std::int32_t> own_items(std::int64_t user) const {
    return batch_.rows().row(users_.begin + user);
  }
  /// Calls use(user) for the slice's users of an item; the batch needs its transpose.
  template <class Use>
  void for_users_of(std::int64_t item, Use&& use) const {
    for (std::int32_t i = batch_.item_begin[item]; i < batch_.item_begin[item + 1]; ++i) {
      const std::int64_t u = batch_.item_users[i] - users_.begin;
      if (u >= 0 && u < users_.size()) use(u);
    }
  }

  int threads_;
  const Activations& hidden_;
  const Batch& batch_;
  Range users_;
  std::int64_t k_;
  std::int64_t items_;
  const float* bias_;
  const float* weights_;            // (padded items, K)
  const std::uint16_t* weights16_;  // likewise in bf16; null in fp32 runs
};

}  // namespace vaecf::cpu
