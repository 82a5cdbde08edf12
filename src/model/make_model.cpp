#include <vaecf/backend/cpu/device.hpp>
#include <vaecf/model/make_model.hpp>

namespace vaecf::model {

std::vector<std::string_view> model_types() {
  std::vector<std::string_view> names;
  for (const auto& type : types_of_models<cpu::Device>) names.push_back(type.name);
  return names;
}

}  // namespace vaecf::model
