#include "config/key_making.hpp"

namespace vaecf::config {
namespace {

void add_link_keys(Keys& keys, const std::string& section, scaling::Link scaling::Machine::*link,
                   const std::string& where) {
  keys.push_back(make_key(
      section + ".latency", [link](Config & c) -> auto& { return (c.machine.*link).latency; },
      "seconds that a message takes " + where + ", whatever its length", at_least(0.0)));
  keys.push_back(make_key(
      section + ".bandwidth", [link](Config & c) -> auto& { return (c.machine.*link).bandwidth; },
      "bytes a second that each rank sends " + where + " in a ring", at_least(0.0)));
}

}  // namespace

void add_machine_keys(Keys& keys) {
  keys.push_back(make_key(
      "machine.name", [](Config & c) -> auto& { return c.machine.name; },
      "what launch/scaling --predict computes for; figures are those that one rank reaches while all of its "
      "host work"));
  keys.push_back(make_key(
      "machine.ranks_per_host", [](Config & c) -> auto& { return c.machine.ranks_per_host; },
      "more ranks than these exchange between hosts", at_least(1)));
  keys.push_back(make_key(
      "machine.flops", [](Config & c) -> auto& { return c.machine.flops; },
      "operations a second of large products", at_least(0.0)));
  keys.push_back(make_key(
      "machine.memory_rate", [](Config & c) -> auto& { return c.machine.memory_rate; },
      "bytes a second, read and written", at_least(0.0)));
  keys.push_back(make_key(
      "machine.step_overhead", [](Config & c) -> auto& { return c.machine.step_overhead; },
      "seconds of each step that nothing else explains", at_least(0.0)));
  keys.push_back(make_key("machine.overlap", [](Config & c) -> auto& { return c.machine.overlap; },
                          "1 where the network works beside the compute, 0 where it needs the same cores",
                          {"between 0 and 1", [](const double& v) { return v >= 0 && v <= 1; }}));
  add_link_keys(keys, "machine.within_host", &scaling::Machine::within_host, "within a host");
  add_link_keys(keys, "machine.between_hosts", &scaling::Machine::between_hosts, "between hosts");
}

}  // namespace vaecf::config
