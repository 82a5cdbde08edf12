#include <vaecf/comm/communicator.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/model_export.hpp>
#include <vaecf/run/recommender.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

#include "app/command_line.hpp"
#include "app/console.hpp"
#include "app/rank_devices.hpp"
#include "app/recommend/item_names.hpp"
#include "app/recommend/output.hpp"

namespace vaecf::app {
namespace {

struct SimilarArguments {
  std::string checkpoint;          ///< empty: best.h5 of the configuration's run folder
  std::vector<std::string> items;  ///< ids in the source
  int top = 10;
  bool titles = false;  ///< add a column of titles
  std::string output;   ///< empty: standard output
  std::string format;   ///< tsv, csv, jsonl, json, hdf5; empty: by the output's ending
};

using Items = std::vector<std::int32_t>;

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

/// Returns the lists of `items`, by the weights and the configuration of the checkpoint.
std::vector<run::SimilarItems> similar_items(const io::CheckpointFile& checkpoint, const Items& items, int k,
                                             Log& log) {
  const auto overrides = std::to_array<std::string>({"device=cpu", "train.precision=fp32"});
  const config::Config config =
      config::parse_served(checkpoint.attribute<std::string>("configuration"), checkpoint.path(), overrides);
  const auto self = comm::make_self_communicator();
  const auto device = device::make_device(backend_options_for_rank(config, *self));
  Progress progress;
  return run::Recommender(config.options, {*self, *device, log, progress}, checkpoint, false)
      .similar(items, k);
}

void run_similar(const CommandLine& line, const SimilarArguments& arguments) {
  Log log(line.verbosity, true);
  const OutputFormat chosen = output_format(arguments.output, arguments.format);
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

  const auto lists = similar_items(checkpoint, items, arguments.top, log);
  io::RecommendationHeader head;
  head.items = ids;
  if (arguments.titles) head.titles = titles;
  head.similar_to = items;
  head.k = 1;
  for (const run::SimilarItems& list : lists) head.k = std::max(head.k, std::ssize(list.items));
  head.attributes = list_attributes(checkpoint);
  const auto places = static_cast<std::size_t>(head.k);
  RecommendationOutput output(chosen, arguments.output, std::move(head));
  for (run::SimilarItems list : lists) {
    list.items.resize(places, -1);
    list.scores.resize(places, -std::numeric_limits<float>::infinity());
    output.append({list.items, list.scores});
  }
  output.commit();
  if (arguments.output.empty()) return;
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
  add_output_format(command, arguments.output, arguments.format);
}

}  // namespace vaecf::app
