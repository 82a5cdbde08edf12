#include <vaecf/config/config.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temporary_folder.hpp"

namespace vaecf::config {
namespace {

TEST(FindConfig, FileOfTheInstallationIsFoundUnlessTheCurrentFolderHasIt) {
  const testing::TemporaryFolder installed;
  const testing::TemporaryFolder current;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(current.path());
  std::filesystem::create_directories(installed.path() / "configs");
  const auto path = installed.path() / "configs" / "a.yaml";
  std::ofstream(path) << "name: a\n";
  EXPECT_EQ(find("configs/a.yaml", installed.path()), path.string());
  for (const std::string& kept :
       {std::string(), std::string("configs"), std::string("configs/b.yaml"), std::string("/configs/a.yaml")})
    EXPECT_EQ(find(kept, installed.path()), kept);
  EXPECT_EQ(find("configs/a.yaml", ""), "configs/a.yaml");
  std::filesystem::create_directory("configs");
  std::ofstream("configs/a.yaml") << "name: b\n";
  EXPECT_EQ(find("configs/a.yaml", installed.path()), "configs/a.yaml");
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace vaecf::config
