#include <vaecf/io/atomic_file.hpp>
#include <vaecf/math/ranking.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "app/command_line.hpp"
#include "app/console.hpp"
#include "app/recommend/item_names.hpp"
#include "app/recommend/output.hpp"
#include "app/recommend/user_item_columns.hpp"

namespace vaecf::app {
namespace {

struct SimilarArguments {
  std::string checkpoint;          ///< empty: best.h5 of the configuration's run folder
  std::vector<std::string> items;  ///< ids in the source
  int top = 10;
  bool titles = false;  ///< add a column of titles
  std::string output;   ///< empty: standard output
};

using Items = std::vector<std::int32_t>;

constexpr float masked = -std::numeric_limits<float>::infinity();

/// The similarities of all items to one item; -infinity without a stored weight.
using Scores = std::vector<float>;

/// The inner products of the vectors of all I items with themselves and with those of some items.
struct Products {
  Products(std::size_t all_items, std::size_t items) : squares(all_items), with(items, squares) {}
  std::vector<double> squares;            // (I)
  std::vector<std::vector<double>> with;  // (I) for each of the items
};

/// Returns the products of the rows of a tensor.
Products products_of_rows(const io::CheckpointFile& checkpoint, const io::CheckpointFile::TensorInfo& tensor,
                          const Items& items) {
  std::vector<std::vector<float>> rows(items.size(), std::vector<float>(tensor.columns));
  for (std::size_t n = 0; n < items.size(); ++n)
    checkpoint.read_rows(tensor.name, items[n], items[n] + 1, rows[n]);
  Products products(static_cast<std::size_t>(tensor.rows), items.size());
  checkpoint.for_each_row(tensor, [&](std::int64_t i, std::span<const float> row) {
    products.squares[i] = std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
    for (std::size_t n = 0; n < items.size(); ++n)
      products.with[n][i] = std::inner_product(row.begin(), row.end(), rows[n].begin(), 0.0);
  });
  return products;
}

/// Returns the products of the columns of a tensor.
Products products_of_columns(const io::CheckpointFile& checkpoint,
                             const io::CheckpointFile::TensorInfo& tensor, const Items& items) {
  Products products(static_cast<std::size_t>(tensor.columns), items.size());
  checkpoint.for_each_row(tensor, [&](std::int64_t, std::span<const float> row) {
    for (std::size_t i = 0; i < row.size(); ++i) products.squares[i] += static_cast<double>(row[i] * row[i]);
    for (std::size_t n = 0; n < items.size(); ++n) {
      const float own = row[items[n]];
      for (std::size_t i = 0; i < row.size(); ++i) products.with[n][i] += static_cast<double>(own * row[i]);
    }
  });
  return products;
}

/// Returns the cosines of the items' vectors with those of all items; 0 for a vector of zeros.
std::vector<Scores> cosines(const Products& products, const Items& items) {
  std::vector<Scores> all(items.size());
  for (std::size_t n = 0; n < items.size(); ++n) {
    const double square = products.squares[items[n]];
    for (std::size_t i = 0; i < products.squares.size(); ++i) {
      const double norms = std::sqrt(square * products.squares[i]);
      all[n].push_back(static_cast<float>(norms > 0.0 ? products.with[n][i] / norms : 0.0));
    }
  }
  return all;
}

/// Returns row i of the weights B between items of a solved model: the scores of a user with item i only.
Scores weights_row(const io::CheckpointFile& checkpoint, std::int64_t i, std::int64_t items) {
  Scores row(static_cast<std::size_t>(items), masked);
  const std::string folder = "weights/items/";
  if (const auto* matrix = checkpoint.find_tensor(folder + "matrix")) {
    checkpoint.read_rows(matrix->name, i, i + 1, row);
    return row;
  }
  const auto bounds = checkpoint.read_array<std::int64_t>(folder + "indptr", i, i + 2);
  const auto indices = checkpoint.read_array<std::int32_t>(folder + "indices", bounds[0], bounds[1]);
  const auto data = checkpoint.read_array<float>(folder + "data", bounds[0], bounds[1]);
  for (std::size_t k = 0; k < indices.size(); ++k) row.at(static_cast<std::size_t>(indices[k])) = data[k];
  return row;
}

/// Returns the similarities of each of `items` to all items.
std::vector<Scores> similarities(const io::CheckpointFile& checkpoint, const Items& items,
                                 std::int64_t all_items) {
  if (const auto* table = checkpoint.find_tensor("weights/items/weight"))
    return cosines(products_of_rows(checkpoint, *table, items), items);  // ELSA
  const io::CheckpointFile::TensorInfo* output = nullptr;
  for (int l = 1; const auto* layer = checkpoint.find_tensor(format("weights/decoder_{}/weight", l)); ++l)
    output = layer;
  if (output != nullptr) return cosines(products_of_columns(checkpoint, *output, items), items);
  std::vector<Scores> rows;
  for (const std::int32_t item : items) rows.push_back(weights_row(checkpoint, item, all_items));
  return rows;
}

/// Returns the columns of the items with these ids. Throws InputError if there is no such item.
Items find_items(const std::vector<std::string>& wanted, const io::IdList& ids,
                 const std::string& checkpoint) {
  const ItemNames names(ids);
  Items items;
  for (const std::string& id : wanted) {
    items.push_back(names.find(id));
    if (items.back() >= 0) continue;
    throw InputError(format("--item {}: not among the {} items of {}; their ids are {} ...", excerpt(id),
                            ids.size(), checkpoint, first_ids(ids)));
  }
  return items;
}

void run_similar(const CommandLine& line, const SimilarArguments& arguments) {
  Log log(line.verbosity, true);
  std::optional<io::CheckpointFile> opened;
  const config::Config config = configuration_of(line, arguments.checkpoint, opened);
  for (const std::string& note : config.notes) log.warn("{}", note);
  if (!opened) opened.emplace(checkpoint_path(arguments.checkpoint, config));
  const io::CheckpointFile& checkpoint = *opened;
  const auto [ids, titles, users, hashes] = checkpoint.dataset();
  if (arguments.titles && titles.size() == 0)
    throw InputError(format("--titles: {} contains no /items/title", checkpoint.path()));
  const Items items = find_items(arguments.items, ids, checkpoint.path());
  io::validate_output_path(arguments.output, "--output", {line.config, checkpoint.path()});

  std::string text = arguments.titles ? "item\tsimilar\tscore\ttitle\n" : "item\tsimilar\tscore\n";
  std::vector<Scores> scores = similarities(checkpoint, items, ids.size());
  for (std::size_t n = 0; n < items.size(); ++n) {
    scores[n][items[n]] = masked;
    for (const std::int32_t other : math::top_k(scores[n], arguments.top)) {
      text +=
          format("{}\t{}\t{:g}", tsv_field(ids.text(items[n])), tsv_field(ids.text(other)), scores[n][other]);
      text += arguments.titles ? "\t" + tsv_field(titles.text(other)) + "\n" : "\n";
    }
  }
  if (arguments.output.empty()) return print(text);
  io::AtomicOutputFile file(arguments.output);
  file.write(text);
  file.commit();
  log.info("wrote {}: the items most similar to {} items", arguments.output, items.size());
}

}  // namespace

void add_similar(CLI::App& app, CommandLine& line) {
  const auto shared = std::make_shared<SimilarArguments>();
  auto& command =
      add_command(app, line, "similar",
                  "list the items most similar to given items by the model's weights, with the source's ids",
                  "  vaecf_dist similar configs/ml20m.yaml --item 318\n"
                  "  vaecf_dist similar --checkpoint best.h5 --item 318 --item 858 --top 5 --titles",
                  with(shared, run_similar));
  SimilarArguments& arguments = *shared;
  add_served(command, line, arguments.checkpoint);
  command.add_option("--item", arguments.items, "id of an item, as in the source files; repeatable")
      ->type_name("ID")
      ->allow_extra_args(false)
      ->required();
  add_top(command, arguments.top, "number of similar items per item");
  command.add_flag("--titles", arguments.titles,
                   "add a column with the titles of the similar items, which the checkpoint must contain");
  add_output(command, arguments.output, "a TSV file; default: -, standard output");
}

}  // namespace vaecf::app
