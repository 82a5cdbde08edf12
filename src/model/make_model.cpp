#include <vaecf/backend/cpu/device.hpp>
#include <vaecf/model/make_model.hpp>

namespace vaecf::model {

std::vector<std::string> model_types() {
  std::vector<std::string> names;
  for (const auto& type : types_of_models<cpu::Device>) names.emplace_back(type.name);
  return names;
}

}  // namespace vaecf::model
