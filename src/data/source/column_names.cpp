// The usual names of columns.
#include <vaecf/base/text.hpp>
#include <vaecf/data/source_options.hpp>
#include <vaecf/data/table.hpp>

#include <algorithm>
#include <array>
#include <cctype>

namespace vaecf::data {

bool is_header_for(std::string_view text, std::string_view what) {
  std::string word;
  for (const char c : text)
    if (c != '_' && c != ' ') word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::array kinds = {"item", "movie", "track", "song", "product", "book"};
  const auto heads = [&](std::string_view name) { return word == name || word == std::string(name) + "id"; };
  if (what == "user") return heads("user") || word == "uid";
  if (what == "rank" || what == "title" || what == "category") return word == what;
  if (what == "score") return word == "score" || word == "prediction";
  return std::ranges::any_of(kinds, heads) || word == "iid" || word == "id" || word == "title";
}

std::optional<std::size_t> find_named(const std::vector<std::string_view>& fields, const std::string& name,
                                      std::string_view kind, bool numbers) {
  const bool index = column_number(name).has_value() && !numbers;
  auto at = name.empty() || index ? fields.end() : std::ranges::find(fields, name);
  for (const bool titles : {false, true}) {
    const auto usual = [&](std::string_view field) {
      return is_header_for(field, kind) && (titles || !is_header_for(field, "title"));
    };
    if (at == fields.end() && std::ranges::count_if(fields, usual) == 1)
      at = std::ranges::find_if(fields, usual);
  }
  return at == fields.end() ? std::nullopt : std::optional(static_cast<std::size_t>(at - fields.begin()));
}

std::string no_usual_name(std::string_view kind, std::string_view key,
                          const std::vector<std::string_view>& names) {
  return format("of the columns ({}) not exactly one has a usual name for {}s, such as {}_id; set {}",
                excerpt(join({names.begin(), names.end()})), kind, kind, key);
}

}  // namespace vaecf::data
