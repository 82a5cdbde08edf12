#include <vaecf/base/host.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temporary_folder.hpp"

namespace vaecf {
namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

/// A root folder with the files of a host with 8 GiB, 4 of them available.
class HostLimitsTest : public ::testing::Test {
 protected:
  HostLimitsTest() {
    write("proc/meminfo", "MemTotal:  8388608 kB\nMemFree: 1 kB\nMemAvailable:  4194304 kB\n");
  }
  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((folder_.path() / file).parent_path());
    std::ofstream(folder_.path() / file) << text;
  }
  void write_cgroups(const std::string& text) { write("proc/self/cgroup", text); }
  void write_limit(const std::string& file, const std::string& text) {
    write("sys/fs/cgroup/" + file, text + "\n");
  }
  void expect_memory(std::int64_t available, std::int64_t limit) {
    const HostMemory memory = host_memory(folder_.path());
    EXPECT_EQ(memory.total, 8 * gib);
    EXPECT_EQ(memory.available, available);
    EXPECT_EQ(memory.limit, limit);
  }
  void expect_cores(double limit) { EXPECT_EQ(cpu_limit(folder_.path()), limit); }

  testing::TemporaryFolder folder_;
};

TEST_F(HostLimitsTest, MemoryWithoutLimitIsThatOfTheHost) {
  expect_memory(4 * gib, 0);
  write_cgroups("0::/user.slice\n");
  write_limit("user.slice/memory.max", "max");
  write_limit("memory/memory.limit_in_bytes", "9223372036854771712");
  expect_memory(4 * gib, 0);
}

TEST_F(HostLimitsTest, LimitOfAJobAboveTheGroupOfTheProcessApplies) {
  write_cgroups("1:name=systemd:/x\n0::/slurm/job_7/step_0\n");
  write_limit("slurm/job_7/step_0/memory.max", "max");
  write_limit("slurm/job_7/memory.max", "3221225472");
  write_limit("slurm/job_7/memory.current", "2147483648");
  expect_memory(gib, 3 * gib);
  // Cached pages of files can be freed.
  write_limit("slurm/job_7/memory.stat", "anon 5\ninactive_file 536870912\nactive_file 536870912");
  expect_memory(2 * gib, 3 * gib);
  // What other programs of the host use is not available.
  write_limit("slurm/job_7/memory.max", "7516192768");
  expect_memory(4 * gib, 7 * gib);
  // A cgroup that exceeds its limit has nothing left.
  write_limit("slurm/job_7/memory.max", "1048576");
  expect_memory(0, 1048576);
}

TEST_F(HostLimitsTest, FilesOfAContainerAreInTheTopFolder) {
  write_cgroups("4:cpu,memory:/docker/0123\n0::/\n");
  write_limit("memory/memory.limit_in_bytes", "2147483648");
  write_limit("memory/memory.usage_in_bytes", "1073741824");
  write_limit("memory/memory.stat", "inactive_file 1\ntotal_inactive_file 536870912\ntotal_active_file 0");
  expect_memory(3 * gib / 2, 2 * gib);
}

TEST_F(HostLimitsTest, CpuLimitIsTheSmallestOfAllGroups) {
  expect_cores(0.0);
  write_cgroups("0::/kubepods/pod7/main\n");
  write_limit("kubepods/pod7/main/cpu.max", "max 100000");
  expect_cores(0.0);
  write_limit("kubepods/cpu.max", "600000 100000");
  expect_cores(6.0);
  write_limit("kubepods/pod7/cpu.max", "75000 50000");
  expect_cores(1.5);
  write_limit("kubepods/pod7/main/cpu.max", "400000 100000");
  expect_cores(1.5);
}

TEST_F(HostLimitsTest, CpuLimitOfControlGroupsOfVersion1) {
  write_cgroups("4:cpu,cpuacct:/slurm/job_7/step_0\n3:memory:/other\n0::/\n");
  for (const std::string folder : {"cpu/", "cpu/slurm/job_7/step_0/"}) {
    write_limit(folder + "cpu.cfs_quota_us", "-1");
    write_limit(folder + "cpu.cfs_period_us", "100000");
  }
  expect_cores(0.0);
  write_limit("cpu/slurm/job_7/cpu.cfs_quota_us", "300000");
  write_limit("cpu/slurm/job_7/cpu.cfs_period_us", "100000");
  expect_cores(3.0);
  // In a container, the files of its cgroup are in the top folder.
  write_limit("cpu/cpu.cfs_quota_us", "50000");
  expect_cores(0.5);
}

TEST(CoresWithinLimit, AreWholeAndAtLeastOne) {
  EXPECT_EQ(cores_within(0.0, 8), 8);
  EXPECT_EQ(cores_within(2.0, 8), 2);
  EXPECT_EQ(cores_within(2.9, 8), 2);
  EXPECT_EQ(cores_within(0.3, 8), 1);
  EXPECT_EQ(cores_within(16.0, 8), 8);
  EXPECT_EQ(cores_within(0.0, 0), 1);
}

TEST_F(HostLimitsTest, ProcessorIsThatOfTheFirstCore) {
  write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu avx2\n");
  EXPECT_EQ(cpu_info("model name", folder_.path()), "Some CPU @ 2 GHz");
  EXPECT_EQ(cpu_info("bugs", folder_.path()), "");
}

TEST(Host, FactsOfThisHostAreKnownAndOthersZero) {
  EXPECT_GE(process_cores(), 1);
  EXPECT_LE(process_cores(), host_cores());
  EXPECT_GT(peak_memory_mib(), 1.0);
  EXPECT_GT(free_memory_bytes(), 0.0);
  EXPECT_GT(host_memory().available, 0);
  EXPECT_EQ(host_memory(testing::TemporaryFolder().path()).available, 0);
}

}  // namespace
}  // namespace vaecf
