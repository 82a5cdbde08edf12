#include <vaecf/base/log.hpp>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace vaecf {

struct Log::Sink {
  Verbosity verbosity;
  spdlog::logger logger;
};

Log::Log() = default;

Log::Log(Verbosity verbosity, bool speaks, bool over_bar) {
  if (!speaks) return;
  // A logger of our own rather than spdlog's registry: no globals.
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  sink->set_pattern(over_bar ? "\r\033[K%^%v%$" : "%^%v%$");
  sink->set_color(spdlog::level::info, "");
  sink->set_color(spdlog::level::debug, "");
  sink_ = std::make_unique<Sink>(Sink{verbosity, spdlog::logger("vaecf", std::move(sink))});
  sink_->logger.set_level(spdlog::level::debug);
  sink_->logger.flush_on(spdlog::level::debug);
}

Log::~Log() = default;
Log::Log(Log&&) noexcept = default;
Log& Log::operator=(Log&&) noexcept = default;

bool Log::says(Level level) const {
  if (!sink_) return false;
  switch (sink_->verbosity) {
    case Verbosity::quiet:
      return level == Level::warn;
    case Verbosity::normal:
      return level != Level::debug;
    case Verbosity::verbose:
      return true;
  }
  return true;
}

void Log::write(Level level, std::string_view line) {
  switch (level) {
    case Level::debug:
      sink_->logger.debug(line);
      break;
    case Level::info:
      sink_->logger.info(line);
      break;
    case Level::warn:
      sink_->logger.warn("warning: {}", line);
      break;
  }
}

}  // namespace vaecf
