// Fuzzes the configuration parser. Text must be read or rejected with a message. Dump and parse must
// reproduce what was read.
#include <vaecf/config/config.hpp>

#include "fuzz/support.hpp"

void vaecf::fuzz::run(std::span<const std::uint8_t> bytes, const std::filesystem::path&) {
  refused([&] {
    const std::string dumped = config::dump(config::parse(std::string(text_of(bytes)), "fuzz.yaml"));
    require(config::dump(config::parse(dumped, "dump.yaml")) == dumped, "a dump reads back as itself");
  });
}
