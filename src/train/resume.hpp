#pragma once

#include <vaecf/train/session.hpp>

#include "run_state.hpp"

namespace vaecf::train {

/// Whether the checkpoint to go on from lies among this run's own: then its log and checkpoints go on too,
/// else the run is a new one in them. Collective: rank 0 alone needs to see the file.
bool goes_on_in_its_folder(const SessionOptions& options, comm::Communicator& communicator);

/// Sees to it that best.h5 is the best epoch that `state` knows of; collective. Where that epoch is lost, it
/// warns, and the state forgets it: the next validation is the best so far. What best.h5 then held moves to
/// checkpoints.old.
void settle_best(const SessionOptions& options, const Services& services, const std::string& select,
                 RunState& state);

}  // namespace vaecf::train
