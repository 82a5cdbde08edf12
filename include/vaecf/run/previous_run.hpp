#pragma once

#include <vaecf/run/run.hpp>

namespace vaecf::run {

/// Prepares the run folder for a run that does not continue the one in it: if the folder contains a
/// checkpoint or an event `epoch` or `solve`, moves its contents except the lock file to RUN.N, with the
/// smallest free N from 1, and logs what was moved. Then run.resume_from and start_from are the new paths
/// of these files; resume_from is empty if the search of a solved model does not continue. Must be called
/// before train(), by the holder of the lock. Collective; only rank 0 accesses the folder. Throws InputError
/// on all ranks, with all files at their places, if the contents cannot be moved, or if data.file is one of
/// them.
void move_previous_run(Run& run);

}  // namespace vaecf::run
