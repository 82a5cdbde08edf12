#pragma once

namespace vaecf::comm {

/// Forks a process that kills the parent of this process if it is Open MPI's launcher (mpirun, or its daemon
/// on another host) and still runs after `seconds`. For the end of a run on several hosts. Does nothing under
/// another launcher. Does not block; the forked process outlives this one.
///
/// Measured with Open MPI 4.1.4 (tests/cluster/two_hosts_test: the link is cut, timeout 4 s). Without this
/// function the ranks end after 5 s, but mpirun and orted still run after 100 s. Each waits for the other
/// until TCP gives up after a quarter of an hour. With it both end within 16 s. TCP keepalive
/// (oob_tcp_keepalive_time 10, _intvl 5, _probes 3) does not help, because TCP sends no probes while data are
/// unacknowledged, here the order to end. With a timeout longer than the probes take, mpirun ends the run
/// after 25 s, but orted still runs after 110 s.
void kill_launcher_after(double seconds) noexcept;

}  // namespace vaecf::comm
