#include "app/audience.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_map>

#include "app/newcomers.hpp"

namespace vaecf::app {
namespace {

class SplitAudience : public Audience {
 public:
  SplitAudience(const io::DatasetFile& file, const std::string& split, std::string matrix)
      : Audience(ids_or_numbers(file, split + "/user_id", file.rows(matrix)),
                 format("{} users of {}", split, file.path())),
        file_(file),
        split_(split),
        matrix_(std::move(matrix)) {}

  Csr seen(Range users) const override { return file_.read_rows(matrix_, users); }
  Csr features(Range users) const override {
    return file_.features() > 0 ? file_.read_rows(split_ + "/features", users) : Csr{};
  }

 private:
  const io::DatasetFile& file_;
  std::string split_;
  std::string matrix_;
};

/// All users of a file, each once: where those of validation and test are train users, their rows are joined.
class Everybody {
 public:
  static constexpr std::array<const char*, 3> splits = {"train", "validation", "test"};

  explicit Everybody(const io::DatasetFile& file) {
    bool numeric = true;
    for (std::size_t s = 0; s < splits.size(); ++s) {
      const std::int64_t rows = file.rows(fold_in(s));
      const std::string path = std::string(splits[s]) + "/user_id";
      const bool named = file.has_ids(path);
      const io::IdList ids = named ? file.read_ids(path) : io::IdList();
      numeric = numeric && (rows == 0 || (named && ids.numeric()));
      for (std::int64_t row = 0; row < rows; ++row) {
        add(s, row, named ? ids.text(row) : format("{}:{}", splits[s], row));
      }
    }
    for (auto& rows : rows_) rows.resize(names_.size(), -1);
    users_by_name_.clear();
    if (!numeric) {
      users.strings = std::move(names_);
    } else {
      for (const std::string& name : names_) users.numbers.push_back(std::stoll(name));
    }
  }

  static std::string fold_in(std::size_t split) {
    return split == 0 ? "train" : std::string(splits[split]) + "/fold_in";
  }

  io::IdList users;
  /// Of each split: the row of each user; -1: not there.
  const std::vector<std::int64_t>& rows(std::size_t split) const { return rows_[split]; }

 private:
  void add(std::size_t split, std::int64_t row, std::string name) {
    const auto [user, is_new] = users_by_name_.emplace(std::move(name), names_.size());
    if (is_new) names_.push_back(user->first);
    rows_[split].resize(names_.size(), -1);
    rows_[split][user->second] = row;
  }

  std::vector<std::string> names_;
  std::unordered_map<std::string, std::size_t> users_by_name_;
  std::array<std::vector<std::int64_t>, 3> rows_;
};

class WholeAudience : public Audience {
 public:
  WholeAudience(const io::DatasetFile& file, Everybody everybody)
      : Audience(std::move(everybody.users), format("users of {}", file.path())), file_(file) {
    for (std::size_t split = 0; split < rows_.size(); ++split) rows_[split] = everybody.rows(split);
  }

  Csr seen(Range users) const override {
    Rows found(static_cast<std::size_t>(users.size()));
    for (std::size_t split = 0; split < rows_.size(); ++split) {
      collect(Everybody::fold_in(split), rows_[split], users, found);
      if (split > 0) {
        collect(format("{}/held_out", Everybody::splits[split]), rows_[split], users, found);
      }
    }
    return join(std::move(found));
  }

  Csr features(Range users) const override {
    if (file_.features() == 0) return {};
    Rows found(static_cast<std::size_t>(users.size()));
    for (std::size_t split = 0; split < rows_.size(); ++split) {
      collect(format("{}/features", Everybody::splits[split]), rows_[split], users, found);
    }
    return join(std::move(found));
  }

 private:
  using Rows = std::vector<std::vector<std::int32_t>>;

  static Csr join(Rows found) {
    Csr joined;
    for (auto& columns : found) {
      std::ranges::sort(columns);
      columns.erase(std::ranges::unique(columns).begin(), columns.end());
      joined.columns.insert(joined.columns.end(), columns.begin(), columns.end());
      joined.offsets.push_back(static_cast<std::int64_t>(joined.columns.size()));
    }
    return joined;
  }

  /// Adds what the users have in `matrix`; users whose rows follow each other are read at once.
  void collect(const std::string& matrix, const std::vector<std::int64_t>& rows, Range users,
               Rows& found) const {
    for (std::int64_t user = users.begin; user < users.end;) {
      const std::int64_t first = rows[static_cast<std::size_t>(user)];
      std::int64_t count = 1;
      if (first < 0) {
        ++user;
        continue;
      }
      while (user + count < users.end && rows[static_cast<std::size_t>(user + count)] == first + count)
        ++count;
      const Csr part = file_.read_rows(matrix, {first, first + count});
      for (std::int64_t i = 0; i < count; ++i) {
        const auto row = part.view().row(i);
        auto& columns = found[static_cast<std::size_t>(user - users.begin + i)];
        columns.insert(columns.end(), row.begin(), row.end());
      }
      user += count;
    }
  }

  const io::DatasetFile& file_;
  std::array<std::vector<std::int64_t>, 3> rows_;
};

}  // namespace

std::string Audience::description() const {
  return format("{} {}", size(), description_);
}

std::unique_ptr<Audience> make_audience(const RecommendArguments& arguments,
                                        const data::SourceOptions& source, const io::DatasetFile& dataset,
                                        const ItemNames& names, Log& log) {
  if (!arguments.input.empty() || !source.users.path.empty()) {
    return make_newcomers(arguments, source, dataset, names, log);
  }
  if (arguments.split == "all") return std::make_unique<WholeAudience>(dataset, Everybody(dataset));
  const std::string matrix = arguments.split == "train" ? "train" : arguments.split + "/fold_in";
  if (dataset.rows(matrix) == 0) {
    throw InputError(format("{} has no {} users; choose another --split", dataset.path(), arguments.split));
  }
  return std::make_unique<SplitAudience>(dataset, arguments.split, matrix);
}

std::int64_t find_user(const Audience& audience, const std::string& id) {
  const io::IdList& ids = audience.users();
  for (std::int64_t i = 0; i < ids.size(); ++i) {
    if (ids.text(i) == id) return i;
  }
  std::string examples;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(ids.size(), 3); ++i) {
    examples += (i == 0 ? "" : ", ") + ids.text(i);
  }
  throw InputError(
      format("user {} is not among the {}; they are {} ...", id, audience.description(), examples));
}

io::IdList ids_or_numbers(const io::DatasetFile& file, const std::string& path, std::int64_t count) {
  if (file.has_ids(path)) return file.read_ids(path);
  io::IdList ids;
  ids.numbers.resize(static_cast<std::size_t>(count));
  std::iota(ids.numbers.begin(), ids.numbers.end(), 0);
  return ids;
}

}  // namespace vaecf::app
