#pragma once

namespace vaecf::comm {

/// Leaves a process behind that ends Open MPI's launcher of this process (mpirun, or its daemon on another
/// host) if that has not ended by itself within `seconds`. For the end of a run on several hosts. Does
/// nothing under another launcher.
///
/// Measured with Open MPI 4.1.4 (tests/cluster/two_hosts_test: the link is cut, timeout 4 s): without this
/// function the ranks are gone after 5 s, but mpirun and orted are still there after 100 s, because each
/// waits for the other as long as TCP tries, a quarter of an hour; with it they are gone after 16 s.
/// Keepalive (oob_tcp_keepalive_time 10, _intvl 5, _probes 3) changes nothing then, because TCP sends no
/// probes while data, here the order to end, are unacknowledged. With a timeout longer than the probes take,
/// mpirun ends the run after 25 s, but orted is still there after 110 s.
void kill_launcher_after(double seconds) noexcept;

}  // namespace vaecf::comm
