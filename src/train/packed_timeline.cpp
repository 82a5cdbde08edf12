#include "packed_timeline.hpp"

#include <vaecf/base/format.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>
#include <string_view>

namespace vaecf::train {
namespace {

/// One event; names by their number in the table, -1 for none.
struct Record {
  std::int32_t name = -1;
  std::int32_t number_name = -1;
  std::int64_t track = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t number = 0;
};

/// Numbers names in the order in which they first come.
class NameTable {
 public:
  std::int32_t number_of(const char* name) {
    if (name == nullptr) return -1;
    const auto [place, added] = numbers_.try_emplace(name, static_cast<std::int32_t>(numbers_.size()));
    if (added) text_ += format("{}\n", name);
    return place->second;
  }
  std::size_t size() const { return numbers_.size(); }
  const std::string& text() const { return text_; }

 private:
  std::map<std::string, std::int32_t> numbers_;
  std::string text_;
};

}  // namespace

void make_nested(std::vector<TimelineEvent>& events) {
  std::stable_sort(events.begin(), events.end(), [](const TimelineEvent& a, const TimelineEvent& b) {
    if (a.track != b.track) return a.track < b.track;
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::vector<const TimelineEvent*> open;
  for (TimelineEvent& event : events) {
    const auto over = [&](const TimelineEvent* other) {
      return other->track != event.track || other->end <= event.begin;
    };
    while (!open.empty() && over(open.back())) open.pop_back();
    event.end = std::max(event.end, event.begin);
    if (!open.empty()) event.end = std::min(event.end, open.back()->end);
    open.push_back(&event);
  }
}

std::string packed(const RankTimeline& timeline) {
  NameTable names;
  std::vector<Record> records;
  records.reserve(timeline.events.size());
  for (const TimelineEvent& event : timeline.events) {
    const std::int32_t name = names.number_of(event.name);
    records.push_back({name, names.number_of(event.number_name), static_cast<std::int64_t>(event.track),
                       event.begin, event.end, event.number});
  }
  std::string text = format("{}\n{} {} {} {}\n{}", timeline.host, timeline.dropped, timeline.clock_error,
                            names.size(), records.size(), names.text());
  const std::size_t begin = text.size();
  text.resize(begin + records.size() * sizeof(Record));
  if (!records.empty()) std::memcpy(text.data() + begin, records.data(), records.size() * sizeof(Record));
  return text;
}

std::int64_t first_moment(const RankTimeline& timeline, std::int64_t none) {
  for (const TimelineEvent& event : timeline.events) none = std::min(none, event.begin);
  return none;
}

void write_rank(const std::string& packed, int rank, std::int64_t origin, io::TraceFile& file) {
  std::istringstream in(packed);
  std::string host;
  std::getline(in, host);
  std::int64_t dropped = 0;
  std::int64_t error = 0;
  std::size_t name_count = 0;
  std::size_t count = 0;
  in >> dropped >> error >> name_count >> count;
  in.ignore();  // the end of the line
  std::vector<std::string> names(name_count);
  for (std::string& name : names) std::getline(in, name);
  const auto name_of = [&](std::int32_t number) {
    return number < 0 ? std::string_view() : std::string_view(names.at(static_cast<std::size_t>(number)));
  };

  file.name_process(rank, format("rank {} on {}", rank, host));
  std::vector<bool> seen(track_names.size());
  Record record;
  for (std::size_t i = 0; i < count; ++i) {
    in.read(reinterpret_cast<char*>(&record), sizeof record);
    const auto track = static_cast<std::size_t>(record.track);
    if (!seen.at(track)) {
      seen[track] = true;
      file.name_thread(rank, static_cast<int>(track), track_names.at(track));
    }
    file.add({rank, static_cast<int>(track), name_of(record.name), record.begin - origin, record.end - origin,
              name_of(record.number_name), record.number});
  }
  file.note(format("rank {}", rank), format("clock within {:.1f} us of rank 0's; {} older events dropped",
                                            static_cast<double>(error) / 1000.0, dropped));
}

}  // namespace vaecf::train
