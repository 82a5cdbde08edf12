#include <vaecf/io/trace_file.hpp>

#include <vaecf/base/format.hpp>
#include <vaecf/io/output_file.hpp>

#include <nlohmann/json.hpp>

#include <cstdlib>

namespace vaecf::io {
namespace {

std::string quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The format counts in microseconds.
std::string microseconds(std::int64_t nanoseconds) {
  return format("{}{}.{:03}", nanoseconds < 0 ? "-" : "", std::abs(nanoseconds) / 1000,
                std::abs(nanoseconds) % 1000);
}

}  // namespace

struct TraceFile::Content {
  explicit Content(const std::string& path) : file(path) { file.write("{\"traceEvents\":["); }

  void event(const std::string& text) {
    file.write(any ? ",\n" : "\n");
    file.write(text);
    any = true;
  }
  void metadata(std::string_view what, int process, int thread, std::string_view name) {
    event(format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", what, process, thread,
                 quoted(name)));
  }

  OutputFile file;
  bool any = false;
  std::string notes;
};

TraceFile::TraceFile(const std::string& path) : content_(std::make_unique<Content>(path)) {}
TraceFile::~TraceFile() = default;

void TraceFile::name_process(int process, std::string_view name) {
  content_->metadata("process_name", process, 0, name);
  // Ranks in their order, whatever happened first.
  content_->event(
      format(R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}})", process));
}

void TraceFile::name_thread(int process, int thread, std::string_view name) {
  content_->metadata("thread_name", process, thread, name);
  content_->event(
      format(R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
             process, thread, thread));
}

void TraceFile::add(const TraceEvent& event) {
  std::string text =
      format(R"({{"ph":"X","name":{},"pid":{},"tid":{},"ts":{},"dur":{})", quoted(event.name), event.process,
             event.thread, microseconds(event.begin), microseconds(event.end - event.begin));
  if (!event.number_name.empty()) {
    text += format(R"(,"args":{{{}:{}}})", quoted(event.number_name), event.number);
  }
  content_->event(text + "}");
}

void TraceFile::note(std::string_view key, std::string_view text) {
  content_->notes += format("{}{}:{}", content_->notes.empty() ? "" : ",", quoted(key), quoted(text));
}

void TraceFile::publish() {
  content_->file.write(format("\n],\"displayTimeUnit\":\"ms\",\"otherData\":{{{}}}}}\n", content_->notes));
  content_->file.commit();
}

}  // namespace vaecf::io
