#include <vaecf/base/log.hpp>
#include <vaecf/base/text.hpp>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace vaecf {

struct Log::Sink {
  Level min_level;
  spdlog::logger logger;
};

Log::Log() = default;

Log::Log(Verbosity verbosity, bool enabled, bool shares_line_with_progress_bar) {
  if (!enabled) return;
  // Not from spdlog's registry, which is global state.
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  sink->set_pattern(shares_line_with_progress_bar ? "\r\033[K%^%v%$" : "%^%v%$");
  sink->set_color(spdlog::level::info, "");
  const Level min_level = verbosity == Verbosity::quiet    ? Level::warn
                          : verbosity == Verbosity::normal ? Level::info
                                                           : Level::debug;
  sink_ = std::make_unique<Sink>(Sink{min_level, spdlog::logger("vaecf", std::move(sink))});
  sink_->logger.flush_on(spdlog::level::info);
}

Log::~Log() = default;
Log::Log(Log&&) noexcept = default;
Log& Log::operator=(Log&&) noexcept = default;

bool Log::should_log(Level level) const {
  return sink_ && level >= sink_->min_level;
}

void Log::write(Level level, std::string_view line) {
  const bool warns = level == Level::warn;
  sink_->logger.log(warns ? spdlog::level::warn : spdlog::level::info, "{}{}", warns ? "warning: " : "",
                    escape(line));
}

}  // namespace vaecf
