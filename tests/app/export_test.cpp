#include <vaecf/io/json.hpp>

#include <cstring>

#include "app/process_fixture.hpp"
#include "support/for_each_kind.hpp"

namespace vaecf::app {
namespace {

using Export = TrainedRun;

/// A reader of safetensors files, independent of the program.
class SafeTensors {
 public:
  explicit SafeTensors(std::string bytes) : bytes_(std::move(bytes)) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), 8);
    begin_ = 8 + length;
    header_ = io::Json::parse(bytes_.substr(8, length));
  }
  const io::Json& header() const { return header_; }
  std::size_t data_bytes() const { return bytes_.size() - begin_; }
  template <class T>
  std::vector<T> read(const std::string& name) const {
    const auto offsets = header().at(name).at("data_offsets");
    const auto from = static_cast<std::size_t>(offsets.at(0).get<std::int64_t>());
    const auto to = static_cast<std::size_t>(offsets.at(1).get<std::int64_t>());
    std::vector<T> values((to - from) / sizeof(T));
    std::memcpy(values.data(), bytes_.data() + begin_ + from, to - from);
    return values;
  }

 private:
  std::string bytes_;
  std::size_t begin_ = 0;
  io::Json header_;
};

TEST_F(Export, SafetensorsHaveAHeaderOfAllTensors) {
  workspace.succeed("export runs/small/checkpoints/best.h5 --output out/m.safetensors");
  const SafeTensors file(workspace.read("out/m.safetensors"));
  EXPECT_EQ(file.header().at("encoder_2.weight").at("shape").dump(), "[16,16]");
  EXPECT_EQ(file.header().at("encoder_2.bias").at("shape").dump(), "[16]");
  EXPECT_EQ(file.header().at("__metadata__").at("model_type").get<std::string>(), "mult_vae");
  std::int64_t end = 0;
  for (const auto& [name, entry] : file.header().items()) {
    if (name != "__metadata__") end = std::max(end, entry.at("data_offsets").at(1).get<std::int64_t>());
  }
  EXPECT_EQ(static_cast<std::size_t>(end), file.data_bytes());
  EXPECT_EQ(file.read<std::int64_t>("items.id").size(), 60U);
}

TEST_F(Export, ScoresEqualThoseOfRecommend) {
  const auto known = lines_of(workspace.succeed("recommend small.yaml --quiet --top 3").out);
  workspace.write("new.csv", "ann," + known.at(0).item + "\nann," + known.at(1).item + "\nbob," +
                                 known.at(2).item + "\n");
  std::vector<std::string> all = {"mult_dae --set model.hidden=[]",
                                  "autoencoder --set model.autoencoder.activation=identity",
                                  "ease --set model.ease.relax=0.4",
                                  "ease --set model.ease.neighbors=9 --set model.ease.relax=1",
                                  "item_knn --set model.item_knn.neighbors=all",
                                  "ease --set model.low_rank.factors=4",
                                  "item_knn --set model.low_rank.factors=4 --set model.low_rank.power=0.2"};
  testing::for_each_kind([&](const models::Kind& kind) { all.push_back(kind.name()); });
  for (const std::string& model : all) {
    const std::string settings = " --set model.type=" + model;
    SCOPED_TRACE(settings);
    workspace.succeed("small.yaml --train --quiet --set name=shaped" + settings);
    workspace.succeed("recommend small.yaml --set name=shaped" + settings +
                      " --input new.csv --keep-seen --top 60 --quiet --output top.tsv");
    expect_same_scores(workspace, "shaped", "", 120);
  }
}

TEST_F(Export, InvalidArgumentsAreErrors) {
  const std::string command = "export runs/small/checkpoints/best.h5 --output ";
  workspace.refuse(command + "m.pt", "m.pt");
  workspace.refuse("export data.h5 --output m.onnx", "data.h5");
  workspace.refuse(command + "/dev/null/m.onnx", "/dev/null/m.onnx", 0, 1);
  workspace.refuse(command + "m.onnx --data data.h5", "--data");
  EXPECT_FALSE(workspace.exists("m.onnx"));
  workspace.bash("rm data.h5 small.yaml");
  workspace.succeed(command + "m.onnx --quiet");
}

// Latin-1 ids: in JSON both would become the same string.
TEST_F(Export, NonUtf8IdsAreExportedToSafetensorsOnly) {
  std::string ratings = "user,item\n";
  for (int user = 0; user < 12; ++user) {
    for (const char* item : {"\xe9", "\xe8", "a", "b", "c"})
      ratings += "u" + std::to_string(user) + "," + item + "\n";
  }
  workspace.write("ratings.csv", ratings);
  workspace.write(
      "odd.yaml",
      "name: odd\n"
      "data: {file: odd.h5, source: {format: delimited, path: ratings.csv, user_column: user, "
      "item_column: item}, prepare: {split: liang2018, min_user_items: 5, validation_users: 2, test_users: 2}}\n"
      "model: {hidden: [4], latent: 2}\n"
      "train: {epochs: 1, batch_size: 8}\n");
  workspace.succeed("prepare odd.yaml --quiet");
  workspace.succeed("odd.yaml --train --quiet");
  const std::string command = "export runs/odd/checkpoints/best.h5 --quiet --output ";
  workspace.refuse(command + "m.onnx", "is not UTF-8");
  EXPECT_FALSE(workspace.exists("m.onnx"));
  workspace.succeed(command + "m.safetensors");
  EXPECT_EQ(SafeTensors(workspace.read("m.safetensors")).read<std::uint8_t>("items.id").size(), 5U);
}

}  // namespace
}  // namespace vaecf::app
