#include "app/doctor/finding.hpp"

#include "app/gather.hpp"

#include <algorithm>
#include <string_view>

namespace vaecf::app {
namespace {

// Between ranks: fields and findings end in characters that no text of ours holds.
constexpr char end_of_field = '\x1f';
constexpr char end_of_finding = '\x1e';

std::string packed(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    const auto digit = [](auto number) {
      return std::string(1, static_cast<char>('0' + static_cast<int>(number)));
    };
    for (const std::string& field :
         {finding.subject, digit(finding.health), finding.text, finding.advice, digit(finding.about)}) {
      text += field + end_of_field;
    }
    text += end_of_finding;
  }
  return text;
}

std::string_view take(std::string_view& text, char end) {
  const auto size = std::min(text.find(end), text.size());
  const std::string_view head = text.substr(0, size);
  text.remove_prefix(std::min(size + 1, text.size()));
  return head;
}

std::vector<Finding> unpacked(std::string_view text) {
  std::vector<Finding> findings;
  while (!text.empty()) {
    std::string_view one = take(text, end_of_finding);
    Finding finding;
    finding.subject = take(one, end_of_field);
    finding.health = static_cast<Health>(take(one, end_of_field).at(0) - '0');
    finding.text = take(one, end_of_field);
    finding.advice = take(one, end_of_field);
    finding.about = static_cast<About>(take(one, end_of_field).at(0) - '0');
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace

const char* to_string(Health health) {
  switch (health) {
    case Health::ok:
      return "ok";
    case Health::warn:
      return "warn";
    case Health::fail:
      return "fail";
  }
  return "";
}

const char* to_string(About about) {
  switch (about) {
    case About::all:
      return "all";
    case About::host:
      return "host";
    case About::rank:
      return "rank";
  }
  return "";
}

std::vector<SharedFinding> gather_findings(comm::Communicator& communicator,
                                           const std::vector<Finding>& mine) {
  std::vector<SharedFinding> all;
  const auto texts = gather_texts(communicator, packed(mine));
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    for (Finding& finding : unpacked(texts[rank])) {
      const auto same = [&](const SharedFinding& other) { return other.finding == finding; };
      auto place = std::find_if(all.begin(), all.end(), same);
      if (place == all.end()) {
        const auto of_subject = [&](const SharedFinding& other) {
          return other.finding.subject == finding.subject;
        };
        const auto last = std::find_if(all.rbegin(), all.rend(), of_subject);
        place = all.insert(last == all.rend() ? all.end() : last.base(), {std::move(finding), {}});
      }
      // A rank that found the same twice found it once.
      if (place->ranks.empty() || place->ranks.back() != static_cast<int>(rank)) {
        place->ranks.push_back(static_cast<int>(rank));
      }
    }
  }
  return all;
}

}  // namespace vaecf::app
