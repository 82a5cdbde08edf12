#include <vaecf/io/json.hpp>

#include <cmath>
#include <cstring>
#include <map>

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

/// Applies a layer to the vector x, with or without tanh.
std::vector<double> layer(const SafeTensors& file, const std::string& name, const std::vector<double>& x,
                          bool tanh) {
  const auto weight = file.read<float>(name + ".weight");
  const auto bias = file.read<float>(name + ".bias");
  std::vector<double> y(bias.begin(), bias.end());
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < y.size(); ++j) y[j] += x[i] * static_cast<double>(weight[i * y.size() + j]);
  }
  if (tanh) {
    for (double& value : y) value = std::tanh(value);
  }
  return y;
}

/// Writes new.csv, a user ann with the items of columns 3 and 50, and expects that `recommend` with these
/// settings scores all items of ann like `scores`.
void expect_scores_of_ann(const TempWorkspace& workspace, const std::string& settings,
                          const std::vector<std::int64_t>& ids, const std::vector<double>& scores) {
  workspace.write("new.csv", "ann," + std::to_string(ids[3]) + "\nann," + std::to_string(ids[50]) + "\n");
  std::map<std::int64_t, double> recommended;
  for (const Recommended& line : lines_of(
           workspace.succeed("recommend " + settings + " --quiet --input new.csv --keep-seen --top 60").out))
    recommended[std::stoll(line.item)] = line.score;
  ASSERT_EQ(recommended.size(), 60U);
  for (std::size_t c = 0; c < 60; ++c)
    EXPECT_NEAR(recommended.at(ids[c]), scores[c], 2e-5) << settings << " " << c;
}

TEST_F(Export, SafetensorsReproduceTheScores) {
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

  const auto ids = file.read<std::int64_t>("items.id");
  ASSERT_EQ(ids.size(), 60U);
  std::vector<double> x(60, 0.0);
  x[3] = x[50] = 1.0 / std::sqrt(2.0);
  std::vector<double> mu = layer(file, "encoder_2", layer(file, "encoder_1", x, true), false);
  mu.resize(8);
  expect_scores_of_ann(workspace, "small.yaml", ids,
                       layer(file, "decoder_2", layer(file, "decoder_1", mu, true), false));
}

TEST_F(Export, OnnxScoresEqualThoseOfRecommend) {
  const auto known = lines_of(workspace.succeed("recommend small.yaml --quiet --top 3").out);
  workspace.write("new.csv", "ann," + known.at(0).item + "\nann," + known.at(1).item + "\nbob," +
                                 known.at(2).item + "\n");
  std::vector<std::string> all = {"--set model.type=mult_dae --set model.hidden=[]"};
  testing::for_each_trained_kind(
      [&](const models::TrainedKind& kind) { all.push_back("--set model.type=" + kind.name()); });
  for (const std::string& settings : all) {
    SCOPED_TRACE(settings);
    workspace.succeed("small.yaml --train --quiet --set name=shaped " + settings);
    EXPECT_EQ(workspace.succeed("export runs/shaped/checkpoints/best.h5 --output m.onnx --quiet").err, "");
    workspace.succeed("recommend small.yaml --set name=shaped " + settings +
                      " --input new.csv --keep-seen --top 60 --quiet --output top.tsv");
    expect_same_scores(workspace, "", 120);
  }
}

TEST_F(Export, WeightsBetweenItemsReproduceTheScores) {
  for (const std::string model : {"ease", "ease --set model.ease.relax=0.4",
                                  "ease --set model.ease.neighbors=9 --set model.ease.relax=1", "item_knn",
                                  "item_knn --set model.item_knn.neighbors=0"}) {
    const std::string settings = "small.yaml --set name=items --set model.type=" + model;
    workspace.succeed(settings + " --quiet --train");
    const std::string command = "export runs/items/checkpoints/best.h5 --output ";
    workspace.succeed(command + "m.safetensors --quiet");
    workspace.refuse(command + "m.onnx", "export a .safetensors file");
    const SafeTensors file(workspace.read("m.safetensors"));
    std::vector<double> scores(60, 0.0);
    for (const std::size_t i : {3U, 50U}) {
      if (file.header().contains("items.matrix")) {
        const auto matrix = file.read<float>("items.matrix");
        for (std::size_t j = 0; j < 60; ++j) scores[j] += matrix[i * 60 + j];
      } else {
        const auto indptr = file.read<std::int64_t>("items.indptr");
        const auto indices = file.read<std::int32_t>("items.indices");
        for (auto k = static_cast<std::size_t>(indptr[i]); k < static_cast<std::size_t>(indptr[i + 1]); ++k)
          scores[static_cast<std::size_t>(indices[k])] += file.read<float>("items.data")[k];
      }
    }
    expect_scores_of_ann(workspace, settings, file.read<std::int64_t>("items.id"), scores);
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
  workspace.write("odd.yaml",
                  "name: odd\n"
                  "data: {file: odd.h5, source: {format: delimited, path: ratings.csv, user_column: user, "
                  "item_column: item}, prepare: {validation_users: 2, test_users: 2}}\n"
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
