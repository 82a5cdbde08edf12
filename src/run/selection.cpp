#include "run/selection.hpp"

namespace vaecf::run {

bool validates(const Run& run) {
  return run.options.validation.every > 0 && run.dataset.entries("validation/held_out") > 0;
}

std::string selection_of(const Run& run) {
  return validates(run) ? run.options.validation.select : "last";
}

}  // namespace vaecf::run
