#include "config/key_making.hpp"

namespace vaecf::config {

std::vector<Key> all_keys() {
  Keys keys;
  add_data_keys(keys);
  add_model_keys(keys);
  add_train_keys(keys);
  add_run_keys(keys);
  add_machine_keys(keys);
  return keys;
}

}  // namespace vaecf::config
