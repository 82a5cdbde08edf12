#include <vaecf/base/error.hpp>
#include <vaecf/config/config.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vaecf::config {
namespace {

TEST(OtherVersions, InvalidKeysOfAStoredConfigurationAreIgnoredUnlessCompared) {
  const std::string text =
      "train:\n  batch_size: 7\n  annealing: {steps: 5, cap: 0.5}\n  nonsense: 3\n"
      "model: {banana: {split: 1}, latent: 8}\n"
      "data: {virtual_shards: 3, file: 7.h5, elsewhere: 1}\n"
      "run: {checkpoint_every: 1000000h, keep: none}\nvalidation: {select: another}\nfuture: [1, 2]\n";
  const Config stored = parse_stored(text, "c.h5");
  const Config now = parse(
      "train: {batch_size: 7, annealing: {steps: 5, cap: 0.5}}\nmodel: {latent: 8}\n"
      "data: {virtual_shards: 3, file: 7.h5}",
      "now");
  EXPECT_TRUE(differences(stored, now).empty());
  const std::vector<std::string> notes = {
      "c.h5:4: train.nonsense is not a key", "c.h5:5: model.banana is not a key",
      "c.h5:6: data.elsewhere is not a key", "c.h5:7: run.checkpoint_every.epochs must be auto or an integer",
      "c.h5:7: run.keep must be an integer", "c.h5:8: validation.select must be",
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

TEST(UnusedKeys, AreListedIfTheFileOrAnOverrideSetsThem) {
  const std::string text =
      "model: {type: mult_vae, hidden: [9], dropout: 0.5}\ntrain: {annealing: {cap: 0.5}}";
  EXPECT_EQ(parse(text, "c.yaml").unused, std::vector<std::string>{});
  const std::vector<std::string> overrides = {"model.type=elsa", "model.elsa.factors=8", "model.latent=7"};
  EXPECT_EQ(
      parse(text, "c.yaml", overrides).unused,
      (std::vector<std::string>{"model.hidden", "model.latent", "model.dropout", "train.annealing.cap"}));
}

}  // namespace
}  // namespace vaecf::config
