#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/data/shard.hpp>

#include <utility>

namespace vaecf::data {

HeldOutUsers read_held_out(const io::DatasetFile& file, const std::string& split, int rank, int ranks) {
  const std::string fold_in = split + "/fold_in";
  const std::string targets = split + "/held_out";
  const std::int64_t users = file.rows(fold_in);
  if (file.rows(targets) != users) {
    throw InputError(
        format("{}: /{} has {} users but /{} has {}, although they must be the same users: make "
               "the file again with `prepare`",
               file.path(), fold_in, users, targets, file.rows(targets)));
  }
  const Range rows{rank * users / ranks, (rank + 1) * users / ranks};
  Csr features;
  if (file.features() > 0) features = file.read_rows(split + "/features", rows);
  return {file.read_rows(fold_in, rows), file.read_rows(targets, rows), std::move(features), rows};
}

}  // namespace vaecf::data
