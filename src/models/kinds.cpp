#include <vaecf/models/kind.hpp>

#include <array>

namespace vaecf::models {

#define VAECF_DECLARED(name) const Kind& name##_kind();
VAECF_MODELS(VAECF_DECLARED)

std::span<const Kind* const> all_kinds() {
#define VAECF_ADDRESS(name) &name##_kind(),
  static const std::array kinds = {VAECF_MODELS(VAECF_ADDRESS)};
  return kinds;
}

}  // namespace vaecf::models
