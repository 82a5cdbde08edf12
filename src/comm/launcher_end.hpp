#pragma once

namespace vaecf::comm {

/// Leaves a process behind that ends Open MPI's launcher of this process (mpirun, or its daemon on another
/// host) where that has not ended by itself within `seconds`. For the end of a run that spans hosts: with one
/// of them out of reach, the launcher waits for it as long as TCP tries, which is a quarter of an hour, after
/// all ranks are gone. Does nothing under another launcher.
void end_launcher_after(double seconds) noexcept;

}  // namespace vaecf::comm
