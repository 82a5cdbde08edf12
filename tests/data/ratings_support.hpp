#pragma once

#include <vaecf/base/log.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "data/source/source_formats.hpp"
#include "data/support.hpp"

namespace vaecf::data::test {

/// Events, column by column.
struct Columns {
  std::vector<std::int32_t> user;
  std::vector<std::int32_t> item;
  std::vector<double> time;
  std::vector<SplitPart> part;
  std::vector<std::uint8_t> positive;
  std::vector<std::int64_t> index;

  void add(const Event& event) {
    user.push_back(event.user);
    item.push_back(event.item);
    time.push_back(event.time);
    part.push_back(event.part);
    positive.push_back(event.positive ? 1 : 0);
    index.push_back(event.index);
  }
};

/// A source with its events in their defined order.
struct ReadSource : RawRatings {
  Columns columns{};
  /// Returns "file:line" of event `e`.
  std::string location(std::size_t e) const { return locations.location_of(columns.index[e]); }
};

inline ReadSource read_source(const SourceOptions& source, const ReadOptions& wanted, Log& log,
                              Progress& progress) {
  ReadSource read{read_ratings(source, wanted, log, progress)};
  std::vector<Event> events;
  read.events.each_user({"reading"}, progress, [&](std::span<const Event> of_user) {
    events.insert(events.end(), of_user.begin(), of_user.end());
  });
  std::sort(events.begin(), events.end(), [&](const Event& a, const Event& b) {
    const auto key = [&](const Event& e) {
      const std::int64_t id =
          read.ordered_by_item ? read.item_ids.numbers[static_cast<std::size_t>(e.item)] : 0;
      return std::pair(id, std::int64_t{e.index});
    };
    return key(a) < key(b);
  });
  for (const Event& event : events) read.columns.add(event);
  return read;
}

/// Fixture that reads ratings; ratings of at least 4 are positive by default.
class SourceTest : public DataTest {
 protected:
  SourceTest() { wanted_.min_rating = 4.0; }
  ReadSource read(const std::string& format, const std::string& path) {
    source_.format = format;
    source_.path = path;
    return read_source(source_, wanted_, log_, progress_);
  }
  std::string refusal(const std::string& format, const std::string& path) {
    return message_of<InputError>([&] { read(format, path); });
  }

  SourceOptions source_;
  ReadOptions wanted_;
};

/// Events as "user/item", with the prefix "-" if the rating is too low.
using Pairs = std::vector<std::string>;

/// Fixture that lists the events of a source and makes folders.
class PairsTest : public SourceTest {
 protected:
  Pairs pairs(const ReadSource& ratings) {
    Pairs all;
    for (std::size_t e = 0; e < ratings.columns.positive.size(); ++e) {
      all.push_back((ratings.columns.positive[e] != 0 ? "" : "-") +
                    ratings.user_ids.text(ratings.columns.user[e]) + "/" +
                    ratings.item_ids.text(ratings.columns.item[e]));
    }
    return all;
  }
  std::string folder(const std::string& name) {
    std::filesystem::create_directories(folder_.path(name));
    return folder_.path(name);
  }
};

}  // namespace vaecf::data::test
