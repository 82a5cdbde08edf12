#include <vaecf/base/error.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/keys/key.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "config/other_value.hpp"
#include "config/read_text.hpp"
#include "support/for_each_kind.hpp"
#include "support/messages.hpp"

namespace vaecf::config {
namespace {

TEST(Config, ReadsEveryKindOfValue) {
  const Config config = read(
      "name: small\n"
      "data: {source: {format: delimited, separator: \"\\t\", header: false}}\n"
      "model: {hidden: [300, 100], dropout: 0.25}\n"
      "train:\n"
      "  epochs: +3\n"
      "  optimizer: {type: sgd, learning_rate: 1e-2}\n"
      "  seed: 18446744073709551615\n"
      "evaluation: {metrics: [recall@5, ndcg@10]}\nvalidation: {select: recall@5}\n"
      "backend: {resident: off}\n");
  EXPECT_EQ(config.options.name, "small");
  EXPECT_EQ(config.source.format, "delimited");
  EXPECT_EQ(config.source.separator, "\t");
  EXPECT_FALSE(config.source.header);
  EXPECT_EQ(config.options.model.hidden, (std::vector<std::int64_t>{300, 100}));
  EXPECT_EQ(config.options.model.dropout, 0.25);
  EXPECT_EQ(config.options.train.epochs, 3);
  EXPECT_EQ(config.options.optimizer.type, device::OptimizerKind::sgd);
  EXPECT_EQ(config.options.optimizer.learning_rate, 0.01);
  EXPECT_EQ(config.options.train.seed, 18446744073709551615U);
  EXPECT_EQ(config.options.validation.metrics, (std::vector<std::string>{"recall@5", "ndcg@10"}));
  EXPECT_EQ(config.backend.resident, Toggle::off);
}

TEST(Config, EveryKeySetsADifferentMember) {
  const Config plain = read("", {"data.source.format=msd"});
  for (const Key& key : all_keys()) {
    Config changed = plain;
    key.read(changed, YAML::Load(other_value(key)));
    const auto found = differences(plain, changed);
    ASSERT_EQ(found.size(), 1U) << key.path;
    EXPECT_EQ(found[0].key, key.path);
    if (!key.exclusive_in.empty()) continue;
    EXPECT_TRUE(differences(parse_stored(dump(changed), "dump"), changed).empty()) << key.path;
  }
}

TEST(Config, EmptyFilesAndSectionsKeepTheDefaults) {
  const std::string defaults = dump(Config{});
  EXPECT_EQ(read("").text, defaults);
  EXPECT_EQ(read("# nothing\ntrain:\n  # epochs: 5\n").text, defaults);
}

TEST(Config, CheckpointEveryAndAnnealingHaveExactlyOneUnit) {
  const auto every = [](const std::string& text, const std::vector<std::string>& overrides = {}) {
    return read(text, overrides).options.run.checkpoint_every;
  };
  EXPECT_EQ(every("").epochs, CheckpointEvery::automatic);
  EXPECT_EQ(every("run: {checkpoint_every: 1}").epochs, 1);
  EXPECT_EQ(every("run: {checkpoint_every: 1}", {"run.checkpoint_every=auto"}).epochs,
            CheckpointEvery::automatic);
  EXPECT_EQ(every("", {"run.checkpoint_every=7"}).epochs, 7);
  EXPECT_EQ(every("run: {checkpoint_every: {steps: 100}}").steps, 100);
  EXPECT_EQ(every("run: {checkpoint_every: {steps: 100}}").epochs, 0);
  const CheckpointEvery minutes =
      every("run: {checkpoint_every: 2, keep_checkpoints: 3}", {"run.checkpoint_every.minutes=0.5"});
  EXPECT_EQ(minutes.minutes, 0.5);
  EXPECT_EQ(minutes.epochs, 0);
  for (const char* text : {"run: {checkpoint_every: never}", "run: {checkpoint_every: auto}",
                           "run: {checkpoint_every: {minutes: 1.5}}"})
    EXPECT_TRUE(differences(read(text), parse(dump(read(text)), "dump")).empty()) << text;
  EXPECT_EQ(read("").options.train.annealing.epochs, training::AnnealingOptions::automatic);
  const Config epochs = read("train: {annealing: {cap: 0.1, epochs: 30}}");
  EXPECT_EQ(epochs.options.train.annealing.epochs, 30);
  EXPECT_EQ(epochs.options.train.annealing.steps, 0);
}

TEST(Config, OverridesAreYaml) {
  const Config config =
      read("train: {epochs: 9}\ndata: {source: {validation_path: x}}",
           {"train.epochs=2", "model.hidden=[32, 16]", "name=a=b", "data.source.validation_path=null",
            "train.optimizer={type: sgd, learning_rate: 0.5}"});
  EXPECT_EQ(config.options.train.epochs, 2);
  EXPECT_EQ(config.options.model.hidden, (std::vector<std::int64_t>{32, 16}));
  EXPECT_EQ(config.options.name, "a=b");
  EXPECT_EQ(config.options.optimizer.type, device::OptimizerKind::sgd);
  EXPECT_EQ(config.source.validation_path, "");
  for (const std::string separator : {",", "|", "::", ";", "#", "*", "\t", "~", "\\t"})
    EXPECT_EQ(read("", {"data.source.separator=" + separator}).source.separator, separator);
  EXPECT_EQ(read("", {"data.source.separator=\",\""}).source.separator, ",");
  EXPECT_EQ(read("validation: {select: last}").options.validation.select, "last");
}

TEST(Config, ErrorsNameLineKeyAndWhatIsExpected) {
  // The messages follow "c.yaml:".
  for (
      const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
          {"name: x\ntrain:\n  epochs: 2\n  batch_sise: 5\n",
           "4: train.batch_sise is not a key (did you mean train.batch_size?)"},
          {"trian: {epochs: 2}\n", "1: trian is not a key (did you mean train?)"},
          {"\nlearning_rate: 1\n",
           "2: learning_rate is not a key (did you mean train.optimizer.learning_rate?)"},
          {"train: {optimiser: {type: adam}}\n",
           "1: train.optimiser is not a key (did you mean train.optimizer?)"},
          {"train.optimiser.type: adam\n",
           "1: train.optimiser.type is not a key (did you mean train.optimizer.type?)"},
          {"run: {checkpoint_every: -1}",
           "1: run.checkpoint_every.epochs must be auto or never or at least 1, got \"-1\""},
          {"run:\n  checkpoint_every:\n    steps: 5\n    minutes: 7\n",
           "4: run.checkpoint_every must have exactly one of epochs, steps, minutes, got steps and minutes"},
          {"run: {checkpoint_every: often}",
           "1: run.checkpoint_every.epochs must be auto or never or an integer, got \"often\""},
          {"train: {batch_size: many}", "1: train.batch_size must be an integer, got \"many\""},
          {"train: {batch_size: [1, 2]}", "1: train.batch_size must be an integer, got [\"1\", \"2\"]"},
          {"train: {batch_size: }", "1: train.batch_size must be an integer, got nothing"},
          {"train: {batch_size: {x: 1}}", "1: train.batch_size must be an integer, got a section of keys"},
          {"model: {dropout: .nan}", "1: model.dropout must be a number, got \".nan\""},
          {"model: {hidden: 600}", "1: model.hidden must be a list of integers, got \"600\""},
          {"model: {hidden: &h [*h]}", "1: model.hidden must be a list of integers, got [a list]"},
          {"data: {source: {header: y}}", "1: data.source.header must be true or false, got \"y\""},
          {"train: 5", "1: train must be a section of keys, got \"5\""},
          {"train: {annealing: 5}", "1: train.annealing must be a section of keys, got \"5\""},
          {"- a\n- b\n",
           "1: not a configuration: must contain keys with values, got [\"a\", \"b\"]; use a YAML file such as "
           "configs/ml1m.yaml"},
          {"train:\n  batch_size: 0", "2: train.batch_size must be at least 1, got \"0\""},
          {"model: {dropout: 1.0}", "1: model.dropout must be at least 0 and below 1, got \"1.0\""},
          {"data: {prepare: {seed: 4294967296}}",
           "1: data.prepare.seed must be between 0 and 4294967295, got \"4294967296\""},
          {"train: {seed: -1}", "1: train.seed must be between 0 and 18446744073709551615, got \"-1\""},
          {"train: {weight_decay: 1e-400}\n",
           "1: train.weight_decay must be 0, or a number of magnitude 2.23e-308 to 1.8e+308, got \"1e-400\""},
          {"train: {precision: int8}",
           "1: train.precision must be one of auto, fp32, bf16, fp16, tf32, bf16x3, got \"int8\""},
          {"model: {type: vae}",
           "1: model.type must be one of " + names_of<models::ModelType>() + ", got \"vae\""},
          {"backend: {cuda_graph: always}",
           "1: backend.cuda_graph must be one of auto, true, false, got \"always\""},
          {"train:\n  epochs: 2\n  epochs: 3\n", "3: train.epochs is set twice; remove one"},
          {"train: {epochs: 2}\nname: x\ntrain: {patience: 3}\n", "3: train is set twice; remove one"},
          {"train.epochs: 3\ntrain: {epochs: 1}\n",
           "2: train.epochs is set twice, here and at c.yaml:1; remove one"},
          {"name: x\ntrain:\n\tepochs: 1\n", "3: not valid YAML: a tab before the key; use spaces"},
          {"name: a\n---\nname: b\n", " contains several YAML documents; use one per file"},
          {",", " contains several YAML documents; use one per file"},  // YAML::LoadAll does not terminate
          {"evaluation: {metrics: [ndcg@10]}\nvalidation:\n  select: recall@5\n",
           "3: validation.select must be last or one of evaluation.metrics (ndcg@10), got recall@5"},
          {"evaluation:\n  metrics: [ndcg@10]\n",
           "2: validation.select must be last or one of evaluation.metrics (ndcg@10), got ndcg@100"}})
    EXPECT_EQ(refusal(text), "c.yaml:" + message);
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"model: {banana: 1}", "c.yaml:1: model.banana is not a key; keys of model: type, "},
           {"\"\": 1\n", "c.yaml:1:  is not a key; keys of the file: name, data, "},
           {"name: x\ntrain: {epochs: 2\n", "c.yaml:"},
           {"train: {patience: 3}\nvalidation: {every: never}", "set validation.every to at least 1"},
           {"train: {patience: 3}\nvalidation: {select: last}", "set it to a metric"},
           {"validation: {every: 0}", "validation.every must be never or at least 1"}})
    expect_in(refusal(text), {part});
  for (const auto& [override, message] : std::vector<std::pair<std::string, std::string>>{
           {"train.epochs=x", "train.epochs must be an integer, got \"x\""},
           {"train.epochs=", "train.epochs must be an integer, got \"\""},
           {"train.epochs=-", "train.epochs must be an integer, got \"-\""},
           {"train.epoch=2", "train.epoch is not a key (did you mean train.epochs?)"},
           {"train.epochs=0", "train.epochs must be at least 1, got \"0\""},
           {"train.epochs", "must be KEY=VALUE, for example --set train.epochs=2"}})
    EXPECT_EQ(refusal("", {override}), "--set " + override + ": " + message);
  expect_in(refusal("", {"name=[a"}), {"--set name=[a: the value is not valid YAML"});
}

TEST(Config, ValuesOutOfRangeAreErrors) {
  for (const char* text : {"train: {epochs: -1}",
                           "train: {epochs: 99999999999999999999}",
                           "train: {optimizer: {learning_rate: 0}}",
                           "train: {optimizer: {beta2: 1}}",
                           "train: {weight_decay: -1}",
                           "train: {clip_gradient_norm: 1e-30}",
                           "train: {patience: -1}",
                           "train: {optimizer: {learning_rate: 1e-50}}",
                           "train: {optimizer: {beta1: 0.99999999}}",
                           "model: {latent: 2000000}",
                           "model: {hidden: [2000000]}",
                           "run: {keep_checkpoints: 0}",
                           "distributed: {parameter_server: {servers: 0}}",
                           "train: {annealing: {steps: 0}}",
                           "model: {dropout: -0.1}",
                           "model: {dropout: 1e999}",
                           "model: {hidden: [600, 0]}",
                           "data: {prepare: {held_out_fraction: 1}}",
                           "data: {prepare: {feature_hashes: 0}}",
                           "name: \"\"",
                           "name: a/b",
                           "name: ..",
                           "name: \"a\\0b\"",
                           "evaluation: {metrics: []}",
                           "evaluation: {metrics: [ndcg@100, ndcg@100]}",
                           "evaluation: {metrics: [ndcg@0]}\nvalidation: {select: last}",
                           "evaluation: {metrics: [no_metric@5]}\nvalidation: {select: last}",
                           "backend: {threads: 5000}",
                           "distributed: {bucket_mib: 0}"})
    EXPECT_NE(refusal(text).find(" must be "), std::string::npos) << text << " -> " << refusal(text);
}

TEST(Config, ResumeRequiresTheSameRun) {
  const Config config = read("train: {epochs: 3}\nmodel: {latent: 8}");
  Log log;
  const auto refused = [&](const Config& now) {
    return message_of<InputError>([&] { require_resumable(now, "c.h5", config.text, log); });
  };
  EXPECT_EQ(refused(config), "(nothing thrown)");
  EXPECT_EQ(
      refused(
          read("train: {epochs: 9, patience: 2, precision: bf16}\nmodel: {latent: 8}\nname: other\n"
               "validation: {every: 2}\nrun: {keep_checkpoints: 4}\ndistributed: {optimizer_state: sharded}\n"
               "device: cpu\ndata: {file: elsewhere.h5}")),
      "(nothing thrown)");
  for (const char* text : {"model: {latent: 9}", "model: {latent: 8}\ntrain: {batch_size: 7}",
                           "model: {latent: 8}\ndata: {virtual_shards: 8}",
                           "model: {latent: 8}\ntrain: {annealing: {cap: 0.5}}"}) {
    EXPECT_NE(refused(read(text)), "(nothing thrown)") << text;
  }
  expect_in(refused(read("model: {latent: 16}")),
            {"c.h5: trained with model.latent 8, but the configuration has 16", "train.epochs"});
}

TEST(Config, KeysThatASolvedModelDoesNotUseAreListedAndMayChange) {
  const std::string text =
      "model: {type: ease, hidden: [300], ease: {l2: 200}, item_knn: {neighbors: 9}}\n"
      "data: {file: d.h5, virtual_shards: 8}\ntrain: {epochs: 3}\nbackend: {threads: 2}\n";
  const Config ease = read(text, {"train.seed=7"});
  EXPECT_EQ(unused_keys(ease, Command::train),
            (std::vector<std::string>{"data.virtual_shards", "model.hidden", "train.epochs", "train.seed"}));
  EXPECT_TRUE(unused_keys(read(text, {"model.type=mult_vae"}), Command::train).empty());
  Log log;
  const auto resumes_from = [&](const std::vector<std::string>& overrides) {
    require_resumable(ease, "c.h5", read(text, overrides).text, log);
  };
  EXPECT_NO_THROW(resumes_from(
      {"model.hidden=[20]", "train.seed=8", "data.virtual_shards=9", "model.item_knn.neighbors=3"}));
  for (const char* change : {"model.ease.l2=[200,300]", "model.ease.dropout=0.3", "model.type=item_knn"})
    EXPECT_THROW(resumes_from({change}), InputError) << change;
}

TEST(Config, LongValuesAreTruncatedInErrors) {
  const std::string data(5000, 'x');
  for (const std::string& text :
       {data, "- " + data, "[a, b]\n" + data, "name: [" + data + "]", "? " + data + "\n: 1", "x: *" + data,
        "train: " + data, "train: {epochs: " + data + "}", "train: {precision: " + data + "}",
        "? " + data + "\n: 1\n? " + data + "\n: 1"}) {
    EXPECT_LT(refusal(text).size(), 300U) << refusal(text);
    EXPECT_NE(refusal(text), "(nothing thrown)");
  }
  for (const std::string& text : {data, data + "=1", "name=[" + data, "train.epochs=" + data}) {
    EXPECT_LT(refusal("", {text}).size(), 370U) << refusal("", {text});
  }
}

TEST(Config, DumpReadsBackUnchanged) {
  const Config config = read(
      "name: \"on\"\n"
      "data: {file: \"a b: #c\\\"\\\\\", source: {separator: \"\\t\", rating_column: \"3\"}}\n"
      "model: {hidden: []}\n"
      "train: {optimizer: {epsilon: 1e-8, learning_rate: 0.1}, annealing: {users: 3e7}, precision: fp32}\n"
      "distributed: {overlap: off}\ndata.prepare.min_rating: -2\n");
  const std::string text = config.text;
  const Config again = read(text);
  EXPECT_EQ(again.text, text);
  EXPECT_EQ(again.options.name, "on");
  EXPECT_EQ(again.options.data.file, "a b: #c\"\\");
  EXPECT_EQ(again.source.separator, "\t");
  EXPECT_EQ(again.options.train.annealing.users, 3e7);
  EXPECT_TRUE(again.options.model.hidden.empty());
  expect_in(text, {"\n    epsilon: 1.0e-08\n"});
  expect_in(text, {"\n  overlap: false\n", "\n    min_rating: -2.0\n", "\n  cuda_graph: auto\n"});
}

TEST(Config, ReferenceParsesToTheDefaults) {
  const std::string text = reference_yaml();
  EXPECT_EQ(read(text).text, dump(Config{}));
  expect_in(text, {"batch_size: 500", "format:", "epochs:", "users:"});
}

TEST(Config, UnreadablePathIsNamedInTheError) {
  const std::string folder = std::filesystem::temp_directory_path();
  for (const std::string& path : {std::string("no/such.yaml"), folder}) {
    expect_in(message_of<InputError>([&] { load(path); }), {path});
  }
}

TEST(OtherVersions, InvalidKeysOfAStoredConfigurationAreIgnoredUnlessCompared) {
  const std::string text =
      "train:\n  batch_size: 7\n  annealing: {steps: 5, cap: 0.5}\n  nonsense: 3\n"
      "model: {latent: 8}\n"
      "data: {virtual_shards: 3, file: 7.h5, elsewhere: 1}\n"
      "run: {checkpoint_every: 1000000h, keep_checkpoints: none}\nvalidation: {select: another}\nfuture: [1, 2]\n";
  const Config stored = parse_stored(text, "c.h5");
  const Config now = parse(
      "train: {batch_size: 7, annealing: {steps: 5, cap: 0.5}}\nmodel: {latent: 8}\n"
      "data: {virtual_shards: 3, file: 7.h5}",
      "now");
  EXPECT_TRUE(differences(stored, now).empty());
  const std::vector<std::string> notes = {
      "c.h5:4: train.nonsense is not a key",
      "c.h5:6: data.elsewhere is not a key",
      "c.h5:7: run.checkpoint_every.epochs must be auto or never or an integer",
      "c.h5:7: run.keep_checkpoints must be an integer",
      "c.h5:8: validation.select must be",
      "c.h5:9: future is not a key",
  };
  ASSERT_EQ(stored.notes.size(), notes.size());
  for (std::size_t i = 0; i < notes.size(); ++i) {
    EXPECT_TRUE(stored.notes[i].starts_with(notes[i])) << stored.notes[i];
    EXPECT_TRUE(stored.notes[i].ends_with("; ignored")) << stored.notes[i];
  }
  Log log;
  require_resumable(parse("train: {batch_size: 7}", "now"), "c.h5", "{train: {batch_size: 7, nonsense: 3}}",
                    log);
  EXPECT_THROW(require_resumable(now, "c.h5", "train: {batch_size: many}", log), InputError);
  EXPECT_THROW(require_resumable(now, "c.h5", "data: {virtual_shards: many}", log), InputError);
}

TEST(OtherVersions, UnknownKeysOfTheModelAreRefused) {
  for (const char* const key :
       {"model: {activation: gelu}", "model: {layer_norm: true}", "model.elsa.bias: 1",
        "{model: {type: ease, ease: {l2: 7, rank: 3}}}", "model: {type: transformer}"}) {
    SCOPED_TRACE(key);
    expect_in(message_of<InputError>([&] { parse_stored(key, "c.h5"); }), {"c.h5:1: model."});
    EXPECT_THROW(parse_served(key, "c.h5", {}), InputError);
  }
  expect_in(message_of<InputError>([&] { parse_stored("model: {activation: gelu}", "c.h5"); }),
            {"model.activation is not a key", "use that version"});
}

TEST(OtherVersions, CheckpointsStoreOnlyTheKeysOfTheirModel) {
  testing::for_each_kind([](const models::Kind& kind) {
    const std::string text = stored_text(format("model: {{type: {}}}", kind.name()));
    const auto stores = [&](const std::string& name) {
      return text.find(format("\n  {}:", name)) != std::string::npos;
    };
    EXPECT_TRUE(stores("type"));
    for (const std::string name : {"latent", "hidden", "dropout", "user_features"})
      EXPECT_EQ(stores(name), kind.uses("model." + name)) << name;
    EXPECT_EQ(stores("low_rank"), kind.uses("model.low_rank."));
    for (const models::Kind* other : models::all_kinds())
      EXPECT_EQ(stores(other->name()), other == &kind && !other->keys().empty()) << other->name();
  });
  // What is not stored has no effect on the model.
  EXPECT_TRUE(differences(parse_stored(stored_text("{name: a, train: {epochs: 3}}"), "c.h5"),
                          read("{name: a, train: {epochs: 3}}"))
                  .empty());
}

}  // namespace
}  // namespace vaecf::config
