#include <vaecf/base/enum_names.hpp>
#include <vaecf/models/kind.hpp>

#include <array>
#include <cstddef>

namespace vaecf::models {

// Each is in the folder of its model.
const Kind& mult_vae_kind();
const Kind& mult_dae_kind();
const Kind& recvae_kind();
const Kind& ease_kind();
const Kind& item_knn_kind();
const Kind& elsa_kind();
const Kind& autoencoder_kind();

std::span<const Kind* const> all_kinds() {
  // In the order of ModelType.
  static const std::array kinds = {&mult_vae_kind(), &mult_dae_kind(), &recvae_kind(),     &ease_kind(),
                                   &item_knn_kind(), &elsa_kind(),     &autoencoder_kind()};
  return kinds;
}

}  // namespace vaecf::models
