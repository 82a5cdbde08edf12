#include "config/key_making.hpp"

namespace vaecf::config {
void add_machine_keys(Keys& keys) {
  add(keys, "machine.name", FIELD(machine.name),
      "what launch/scaling --predict computes for; figures are those that one rank reaches while all of its "
      "host work");
  add(keys, "machine.ranks_per_host", FIELD(machine.ranks_per_host),
      "more ranks than these exchange between hosts", at_least(1));
  add(keys, "machine.flops", FIELD(machine.flops), "operations a second of large products", at_least(0.0));
  add(keys, "machine.memory_rate", FIELD(machine.memory_rate), "bytes a second, read and written",
      at_least(0.0));
  add(keys, "machine.step_overhead", FIELD(machine.step_overhead),
      "seconds of each step that nothing else explains", at_least(0.0));
  add(keys, "machine.overlap", FIELD(machine.overlap),
      "1 where the network works beside the compute, 0 where it needs the same cores", between(0.0, 1.0));
  add(keys, "machine.within_host.latency", FIELD(machine.within_host.latency),
      "seconds that a message takes within a host, whatever its length", at_least(0.0));
  add(keys, "machine.within_host.bandwidth", FIELD(machine.within_host.bandwidth),
      "bytes a second that each rank sends within a host in a ring", at_least(0.0));
  add(keys, "machine.between_hosts.latency", FIELD(machine.between_hosts.latency),
      "seconds that a message takes between hosts, whatever its length", at_least(0.0));
  add(keys, "machine.between_hosts.bandwidth", FIELD(machine.between_hosts.bandwidth),
      "bytes a second that each rank sends between hosts in a ring", at_least(0.0));
}

}  // namespace vaecf::config
