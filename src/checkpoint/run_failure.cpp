#include <vaecf/checkpoint/run_failure.hpp>
#include <vaecf/comm/collective.hpp>
#include <vaecf/io/json.hpp>

#include <chrono>
#include <exception>
#include <filesystem>
#include <future>
#include <memory>
#include <thread>

#include "checkpoint/utc_now.hpp"

namespace vaecf::checkpoint {
void log_failure(const RunFolder& folder, const RunFailure& failure) {
  io::Event event(io::EventKind::failed);
  if (!failure.id.empty()) event.set("id", failure.id);
  event.set("code", vaecf::to_string(failure.code))
      .set("reason", failure.reason)
      .set("rank", std::int64_t{failure.rank})
      .set("host", failure.host)
      .set("phase", to_string(failure.at.phase))
      .set("step", failure.at.step)
      .set("time", utc_now());
  // A thread that is not waited for without end, because a file system may not respond.
  const auto written = std::make_shared<std::promise<void>>();
  std::thread([written, event, path = folder.log()] {
    try {
      if (std::filesystem::exists(path)) io::EventLog(path).write(event);
    } catch (const std::exception&) {  // the message on the terminal has to suffice
    }
    written->set_value();
  }).detach();
  written->get_future().wait_for(std::chrono::seconds(5));
}

}  // namespace vaecf::checkpoint
