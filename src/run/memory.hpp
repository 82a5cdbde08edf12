#pragma once

#include <vaecf/models/kind.hpp>
#include <vaecf/run/run.hpp>

namespace vaecf::run {

/// Returns what determines the cost of a model, with one item slice, and without reading the train users.
models::Workload workload_of(const config::TrainingConfig& options, const io::DatasetFile& dataset,
                             const Context& context);
/// Returns what a model takes in a run. Throws InputError if the model configuration is invalid.
models::Cost cost_of(const models::Kind& kind, const Run& run);

/// Returns whether the rank computes on a GPU.
bool is_on_gpu(const Context& context);
/// Returns the bytes of memory that a rank has on its host: its part of what is free; infinity if unknown.
double free_host_memory(const Context& context);
/// Returns the bytes of memory that a rank has for training: free_host_memory(), or what is free on its GPU,
/// where an eighth is kept for operations.
double memory_for_training(const Context& context);
/// Returns how much of memory_for_training() a rank needs.
double needed_for_training(const models::Cost& cost, const Context& context);

/// Throws BusyError on the affected ranks if a model that is solved does not fit into memory.
void require_memory_to_solve(const models::SolvedKind& kind, const Run& run);

}  // namespace vaecf::run
