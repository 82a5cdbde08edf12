#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "app/doctor/check_result.hpp"
#include "app/doctor/launcher.hpp"
#include "app/doctor/placement.hpp"
#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

namespace vaecf::app {
namespace {

using Slots = std::map<std::string, int>;

/// Reads hostfiles in a temporary folder, which is the launcher's working directory, under Open MPI 4.
class HostList : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile",
                             "PRTE_LAUNCHED", "SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE"})
      ::unsetenv(name);
    ::setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  }
  void TearDown() override {
    SetUp();
    ::unsetenv("OMPI_COMM_WORLD_SIZE");
  }
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    std::ofstream(folder_.path() / name) << text;
  }
  /// Returns the requested hosts for a command line of mpirun.
  RequestedHosts of(std::vector<std::string> command, std::vector<std::string> environment = {}) {
    command.insert(command.begin(), "mpirun");
    return query_requested_hosts({command, environment, folder_.path().string()});
  }

  testing::TemporaryFolder folder_;
};

TEST_F(HostList, HostfileOfTheCommandLine) {
  write(
      "hosts",
      "# comment\n\nnode1 slots=2 # slots=9\nme@node2  max_slots=9 slots = 4\n^node3\nnode4\nnode5\nnode5\n");
  const Slots wanted = {{"node1", 2}, {"node2", 4}, {"node4", 0}, {"node5", 2}};
  EXPECT_EQ(of({"-np", "4", "--hostfile", "hosts", "vaecf_dist"}).slots, wanted);
  EXPECT_EQ(of({"-machinefile", (folder_.path() / "hosts").string()}).slots, wanted);
  EXPECT_EQ(of({"--hostfile=hosts"}).source, "hosts");
  EXPECT_EQ(of({"--prtemca", "prte_default_hostfile", "hosts"}).slots, wanted);
  EXPECT_TRUE(of({"-np", "4", "vaecf_dist"}).slots.empty());
  EXPECT_TRUE(of({"--hostfile", "missing"}).slots.empty());
  EXPECT_TRUE(of({"--hostfile"}).slots.empty());
  // --host selects hosts of the file.
  EXPECT_EQ(of({"--hostfile", "hosts", "--host", "node1:3,node4"}).slots,
            (Slots{{"node1", 3}, {"node4", 1}}));
}

TEST_F(HostList, VariableOfTheOtherVersionOfOpenMpiIsIgnored) {
  write("hosts", "node1 slots=2\nnode2 slots=2\n");
  ::setenv("OMPI_MCA_orte_default_hostfile", "hosts", 1);
  EXPECT_EQ(of({}).slots.size(), 2U);
  EXPECT_EQ(of({}).ignored, "");
  ::setenv("PRTE_LAUNCHED", "1", 1);
  EXPECT_EQ(of({}).slots.size(), 2U);
  EXPECT_EQ(of({}).ignored,
            "Open MPI 5 ignores OMPI_MCA_orte_default_hostfile; set PRTE_MCA_prte_default_hostfile");
  // mpirun does not pass this variable on.
  EXPECT_EQ(of({}, {"A=", "PRTE_MCA_prte_default_hostfile=hosts"}).ignored, "");
  ::unsetenv("PRTE_LAUNCHED");
  ::unsetenv("OMPI_MCA_orte_default_hostfile");
  EXPECT_EQ(of({}, {"PRTE_MCA_prte_default_hostfile=hosts"}).ignored,
            "Open MPI 4 ignores PRTE_MCA_prte_default_hostfile; set OMPI_MCA_orte_default_hostfile");
  // Neither is read without mpirun.
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_TRUE(of({}, {"PRTE_MCA_prte_default_hostfile=hosts"}).slots.empty());
}

TEST_F(HostList, SlurmAllocationIsExpanded) {
  ::setenv("SLURM_JOB_NODELIST", "gpu[08-10,12],login,a[1-2]b[3,4]", 1);
  ::setenv("SLURM_TASKS_PER_NODE", "2(x3),1(x6)", 1);
  EXPECT_EQ(of({}).slots, (Slots{{"gpu08", 2},
                                 {"gpu09", 2},
                                 {"gpu10", 2},
                                 {"gpu12", 1},
                                 {"login", 1},
                                 {"a1b3", 1},
                                 {"a1b4", 1},
                                 {"a2b3", 1},
                                 {"a2b4", 1}}));
  // A step on some of the job's hosts.
  ::setenv("SLURM_JOB_NODELIST", "n[1-2]", 1);
  ::setenv("SLURM_TASKS_PER_NODE", "4", 1);
  EXPECT_EQ(of({}).slots, (Slots{{"n1", 4}, {"n2", 4}}));
  for (const char* odd : {"n[", "n[1-", "[]", ",", "n[2-1]", "]", "n[1-9999999999]b["}) {
    ::setenv("SLURM_JOB_NODELIST", odd, 1);
    of({});
  }
  ::setenv("SLURM_JOB_NODELIST", "n[1-2]", 1);
  EXPECT_TRUE(query_requested_hosts({}).slots.empty()) << "Slurm counts daemons of mpirun as tasks";
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(query_requested_hosts({}).slots.size(), 2U);
}

TEST_F(HostList, LauncherIsAnAncestor) {
  const std::string first = "proc/" + std::to_string(::getppid()) + "/";
  write(first + "comm", "bash\n");
  write(first + "stat", "1 (a b) c) S 4000 1 1\n");
  EXPECT_TRUE(query_launcher(folder_.path()).command.empty());
  write("proc/4000/comm", "prterun\n");
  write("proc/4000/cmdline", std::string("mpirun\0-np\0", 11) + std::string("4\0", 2));
  write("proc/4000/environ", std::string("A=1\0B=\0", 7));
  std::filesystem::create_symlink("/somewhere", folder_.path() / "proc/4000/cwd");
  const Launcher launcher = query_launcher(folder_.path());
  EXPECT_EQ(launcher.command, (std::vector<std::string>{"mpirun", "-np", "4"}));
  EXPECT_EQ(launcher.environment, (std::vector<std::string>{"A=1", "B="}));
  EXPECT_EQ(launcher.folder, "/somewhere");
  EXPECT_EQ(launcher.program, "");
  std::filesystem::create_symlink("/opt/bin/prterun", folder_.path() / "proc/4000/exe");
  EXPECT_EQ(query_launcher(folder_.path()).program, "/opt/bin/prterun");
  // The mpirun of a host that started a container has other files.
  std::filesystem::create_directories(folder_.path() / "proc/4000/ns");
  std::filesystem::create_symlink("mnt:[1]", folder_.path() / "proc/4000/ns/mnt");
  EXPECT_EQ(query_launcher(folder_.path()).program, "");
  // Ranks of other hosts are started by a daemon.
  write(first + "comm", "prted\n");
  std::filesystem::create_symlink("/opt/bin/prted", folder_.path() / first / "exe");
  EXPECT_TRUE(query_launcher(folder_.path()).command.empty());
  EXPECT_EQ(query_launcher(folder_.path()).program, "/opt/bin/prted");
}

/// Compares mpirun with the loaded library, under Open MPI 4 unless a test sets the variables of 5.
class Mpirun : public HostList {
 protected:
  static void under_open_mpi_5(const char* libraries) {
    ::setenv("PRTE_LAUNCHED", "1", 1);
    ::setenv("OMPI_VERSION", "5.0.8", 1);
    ::setenv("OMPI_LIBDIR_LOC", libraries, 1);
  }
  void TearDown() override {
    HostList::TearDown();
    for (const char* name : {"OMPI_VERSION", "OMPI_LIBDIR_LOC"}) ::unsetenv(name);
  }
  /// Returns the warning for an mpirun and the version and path of a library; empty if there is none.
  static std::string warning(const std::string& program, const std::string& version,
                             const std::string& library) {
    Launcher launcher;
    launcher.program = program;
    const CheckResults found = check_mpirun(launcher, {"Open MPI v" + version, library});
    return found.empty() ? "" : found.front().text;
  }
};

TEST_F(Mpirun, LibraryOfTheSameInstallationIsNoWarning) {
  for (const auto& [program, library] : std::vector<std::pair<std::string, std::string>>{
           {"/usr/bin/orterun", "/usr/lib/x86_64-linux-gnu/openmpi/lib/libmpi.so.40.30.4"},  // Debian 12
           {"/opt/openmpi/4.1.6/bin/orterun", "/opt/openmpi/4.1.6/lib/libmpi.so.40"},
           {"/usr/lib64/openmpi/bin/orted", "/usr/lib64/openmpi/lib/libmpi.so.40"},
           {"/a/bundle/libexec/mpirun", "/a/bundle/lib/libmpi.so.40"}}) {
    EXPECT_EQ(warning(program, "4.1.6", library), "");
  }
  under_open_mpi_5("/opt/openmpi/5.0.8/lib");
  EXPECT_EQ(warning("/opt/prrte/bin/prterun", "5.0.8", "/opt/openmpi/5.0.8/lib/libmpi.so.40"), "");
  under_open_mpi_5("/home/me/venv/lib");
  EXPECT_EQ(warning("/home/me/venv/bin/prterun", "5.0.8", "/home/me/venv/lib/libmpi.so.40"), "");
  under_open_mpi_5("/usr/lib/x86_64-linux-gnu/openmpi/lib");
  EXPECT_EQ(warning("/usr/bin/prterun", "5.0.8", "/usr/lib/x86_64-linux-gnu/libmpi.so.40.40.7"), "");
}

TEST_F(Mpirun, LibraryOfAnotherVersionOrInstallationIsAWarning) {
  const std::string library = "/home/me/venv/lib/libmpi.so.40";
  EXPECT_EQ(warning("/usr/bin/orterun", "5.0.8", library),
            "mpirun is that of Open MPI 4 (/usr/bin/orterun), but the program has loaded Open MPI v5.0.8 "
            "(/home/me/venv/lib/libmpi.so.40)");
  EXPECT_NE(warning("", "5.0.8", library), "") << "the version is known on every host";
  EXPECT_NE(warning("/usr/bin/orterun", "4.1.4", "/usr/local/lib/libmpi.so.40"), "");
  under_open_mpi_5("/opt/openmpi/5.0.8/lib");
  EXPECT_EQ(warning("/opt/openmpi/5.0.8/bin/prterun", "4.1.4", "/usr/lib/libmpi.so.40"),
            "mpirun is that of Open MPI 5.0.8 (/opt/openmpi/5.0.8/bin/prterun), but the program has loaded "
            "Open MPI v4.1.4 (/usr/lib/libmpi.so.40)");
  EXPECT_NE(warning("/opt/openmpi/5.0.8/bin/prterun", "5.0.8", library), "");
}

TEST_F(Mpirun, WhatIsUnknownIsNoWarning) {
  EXPECT_EQ(warning("/usr/bin/orterun", "4.1.4", ""), "");
  EXPECT_EQ(warning("", "4.1.4", "/opt/lib/libmpi.so.40"), "");
  EXPECT_TRUE(check_mpirun({}, {"MPICH Version: 4.0.2", "/opt/lib/libmpi.so.12"}).empty());
  under_open_mpi_5("");  // prterun of a PRRTE of its own
  EXPECT_EQ(warning("/opt/prrte/bin/prterun", "5.0.8", "/opt/openmpi/lib/libmpi.so.40"), "");
  ::unsetenv("OMPI_COMM_WORLD_SIZE");  // srun, or no launcher
  EXPECT_EQ(warning("/usr/bin/orterun", "5.0.8", "/opt/lib/libmpi.so.40"), "");
}

/// Returns the findings for `ranks` ranks on each of `hosts`, as "TEXT -> ADVICE".
std::string findings(const std::vector<std::string>& hosts, int ranks, const RequestedHosts& requested) {
  std::vector<RankPlacement> placements;
  for (const std::string& host : hosts)
    placements.insert(placements.end(), ranks, RankPlacement{host, {0}, 1, 1});
  std::string text;
  for (const CheckResult& finding : check_requested_hosts(placements, requested)) {
    EXPECT_EQ(finding.severity, Severity::warn);
    text += finding.text + " -> " + finding.advice;
  }
  return text;
}

TEST(RequestedHostsCheck, FewerHostsThanListedAreAWarningUnlessTheSlotsExplainThem) {
  const RequestedHosts without_slots{"hosts", {{"node1", 0}, {"node2", 0}, {"node3", 0}}};
  expect_in(findings({"node1"}, 4, without_slots),
            {"4 ranks run on 1 host, but hosts lists 3 -> without slots=", "add slots=N to each line"});
  EXPECT_EQ(findings({"node1", "node2", "node3"}, 4, without_slots), "");
  EXPECT_EQ(findings({"node1"}, 1, without_slots), "") << "a single rank has one host";
  const RequestedHosts slots{"hosts", {{"node1.cluster", 2}, {"node2.cluster", 8}, {"10.0.0.3", 4}}};
  EXPECT_EQ(findings({"node1"}, 2, slots), "");
  expect_in(findings({"node1"}, 4, slots),
            {"4 ranks run on 1 host", "more ranks run on a host than it has slots"});
  EXPECT_EQ(findings({"node2"}, 8, slots), "");
  EXPECT_EQ(findings({"unlisted"}, 8, slots), "");
  expect_in(findings({"unlisted"}, 9, slots), {"9 ranks run on 1 host, but hosts lists 3"});
  EXPECT_EQ(findings({"node1"}, 4, {}), "");
  RequestedHosts ignored = slots;
  ignored.ignored = "Open MPI 5 ignores it";
  expect_in(findings({"unlisted"}, 9, ignored), {" -> Open MPI 5 ignores it"});
}

}  // namespace
}  // namespace vaecf::app
