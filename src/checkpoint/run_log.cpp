#include <vaecf/base/error.hpp>
#include <vaecf/checkpoint/run_log.hpp>
#include <vaecf/io/atomic_file.hpp>

#include <utility>

#include "checkpoint/utc_now.hpp"

namespace vaecf::checkpoint {
namespace {

/// Opens metrics.jsonl, and except to append writes config.yaml before; on ranks other than 0 nothing is
/// opened.
io::EventLog open_events(const Context& context, const RunFolder& folder, RunLog::Mode mode) {
  if (context.communicator.rank() != 0) return {};
  prepare_folder(folder.path);
  if (mode != RunLog::Mode::append) {
    prepare_folder(folder.checkpoints());
    io::remove_stale_temporaries(folder.checkpoints());
    io::write_file_atomically(folder.configuration_file(), folder.configuration);
  }
  return io::EventLog(folder.log());
}

}  // namespace

RunLog::RunLog(const Context& context, const RunFolder& folder, Mode mode)
    : log_(context.log), events_(open_events(context, folder, mode)) {}

void RunLog::flush_pending() {
  for (; !pending_.empty(); pending_.pop_front()) events_.write(pending_.front());
}

void RunLog::note(bool& fails, const std::string& error) {
  fails = !error.empty();
  if (fails) {
    ++failures_;
    if (failures_ == 1) log_.warn("{} (training continues; further failed writes are counted)", error);
    if (failures_ > 1) log_.debug("{}", error);
  } else if (failures_ > 0 && !events_fail_ && !checkpoints_fail_) {
    log_.warn("events and checkpoints are written again, after {} failed writes",
              std::exchange(failures_, 0));
  }
}

void RunLog::write(const io::Event& event) {
  pending_.push_back(event);
  pending_.back().set("time", utc_now());
  try {
    flush_pending();
    note(events_fail_, "");
  } catch (const RunError& error) {
    note(events_fail_, error.what());
  }
}

void RunLog::finish() {
  flush_pending();
}

}  // namespace vaecf::checkpoint
