#include <vaecf/context/context.hpp>

#include <cstdint>

namespace vaecf {

int Context::item_slices() const {
  return grid ? grid->item_slices() : 1;
}

int Context::model_parallel_group() const {
  return grid ? grid->model_parallel_group() : communicator.rank();
}

int Context::model_parallel_groups() const {
  return grid ? grid->model_parallel_groups() : communicator.size();
}

device::ModelParallelGroup& Context::model_parallel() const {
  return grid ? grid->model_parallel() : device::single_rank();
}

comm::Communicator& Context::data_parallel_ranks() const {
  return grid ? grid->data_parallel_ranks() : communicator;
}

bool Context::this_rank_asked_to_stop() const {
  return stop != nullptr && stop->requested();
}

bool Context::any_rank_asked_to_stop() const {
  return communicator.all_reduce(std::int64_t{this_rank_asked_to_stop()}, comm::Reduction::max) == 1;
}

}  // namespace vaecf
