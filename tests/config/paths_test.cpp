#include <vaecf/config/config.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

namespace vaecf::config {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> path_keys = {
    "data.file",     "data.source.path",       "data.source.validation_path", "data.source.test_path",
    "run.directory", "data.source.users.path", "data.source.items.path"};

TEST(Paths, TildeIsTheHomeFolderInEveryKeyThatIsAPath) {
  const char* const before = std::getenv("HOME");
  const std::string home = before == nullptr ? "" : before;
  ::setenv("HOME", "/home/me", 1);
  for (const std::string& key : path_keys) {
    for (const auto& [given, expected] :
         std::vector<std::pair<std::string, std::string>>{{"~/d/x.h5", "/home/me/d/x.h5"},
                                                          {"\"~\"", "/home/me"},
                                                          {"~me/x.h5", "~me/x.h5"},
                                                          {"d/~/x", "d/~/x"}}) {
      const std::string text = parse("", "c.yaml", std::vector{key + "=" + given}).text;
      const std::string leaf = " " + key.substr(key.rfind('.') + 1) + ": ";
      const bool quoted = expected.find('~') != std::string::npos;
      expect_in(text, {leaf + (quoted ? '"' + expected + '"' : expected) + "\n"});
    }
  }
  EXPECT_EQ(parse("data: {file: ~/d.h5}", "c.yaml").options.data.file, "/home/me/d.h5");
  EXPECT_EQ(parse("{name: ~x, data: {source: {separator: \"~\"}}}", "c.yaml").source.separator, "~");
  ::unsetenv("HOME");
  EXPECT_EQ(parse("data: {file: ~/d.h5}", "c.yaml").options.data.file, "~/d.h5");
  if (before != nullptr) ::setenv("HOME", home.c_str(), 1);
}

class RunFolder : public ::testing::Test {
 protected:
  RunFolder() { fs::current_path(folder_.path()); }
  ~RunFolder() override { fs::current_path(before_); }

  /// Writes a file with the folders above it.
  static void write(const fs::path& path, const std::string& text) {
    if (path.has_parent_path()) fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  /// Returns the run folder of a configuration.
  static std::string run_folder(const std::string& path, const std::vector<std::string>& overrides = {}) {
    return load(path, overrides).options.run_folder();
  }

 private:
  const testing::TemporaryFolder folder_;
  const fs::path before_ = fs::current_path();
};

TEST_F(RunFolder, OfConfigurationBesideALogIsItsOwnUnlessAnOverrideNamesAnother) {
  for (const char* const folder : {"runs/a", "moved/b", "c"}) {
    write(fs::path(folder) / "config.yaml", "{name: a, run: {directory: runs}}");
    write(fs::path(folder) / "metrics.jsonl", "");
  }
  EXPECT_EQ(run_folder("runs/a/config.yaml"), "runs/a");
  EXPECT_EQ(run_folder(fs::absolute("runs/a/config.yaml").string()), "runs/a") << "the same folder";
  EXPECT_EQ(run_folder("moved/b/config.yaml"), "moved/b");
  EXPECT_EQ(run_folder("./moved//b/../b/config.yaml"), "moved/b");
  EXPECT_EQ(run_folder("c/config.yaml"), "./c");
  EXPECT_EQ(run_folder(fs::absolute("c/config.yaml").string()), fs::absolute("c").string());
  EXPECT_EQ(run_folder("moved/b/config.yaml", {"name=x"}), "moved/x");
  EXPECT_EQ(run_folder("moved/b/config.yaml", {"run.directory=others"}), "others/b");
  EXPECT_EQ(run_folder("moved/b/config.yaml", {"run.directory=runs", "name=a"}), "runs/a");
  fs::remove_all("runs/a");
  EXPECT_EQ(run_folder("moved/b/config.yaml"), "moved/b") << "the old folder is gone";
  const std::string here = fs::canonical("moved/b").string();
  fs::current_path("moved/b");
  EXPECT_EQ(run_folder("config.yaml"), here);
  EXPECT_EQ(run_folder("./config.yaml"), here);
}

TEST_F(RunFolder, OfOtherConfigurationsIsThatOfTheirKeys) {
  write("own/config.yaml", "name: a");
  EXPECT_EQ(run_folder("own/config.yaml"), "runs/a") << "without a log";
  write("own/metrics.jsonl", "");
  write("own/other.yaml", "name: a");
  EXPECT_EQ(run_folder("own/config.yaml"), "./own");
  EXPECT_EQ(run_folder("own/other.yaml"), "runs/a") << "another name";
}

}  // namespace
}  // namespace vaecf::config
