#include "app/doctor/launcher.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <system_error>

#include "app/console.hpp"
#include "app/doctor/check_result.hpp"
#include "app/doctor/placement.hpp"

namespace vaecf::app {
namespace {

namespace fs = std::filesystem;

std::string env_text(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? "" : text;
}

/// Returns the words of a file that are separated by zero bytes, such as /proc/PID/cmdline.
std::vector<std::string> words_of(const fs::path& path) {
  std::vector<std::string> words;
  std::ifstream file(path, std::ios::binary);
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

/// Returns the value of a variable of mpirun, which does not pass all of them on; else that of this process.
std::string variable_of(const Launcher& launcher, const std::string& name) {
  for (const std::string& entry : launcher.environment)
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  return env_text(name.c_str());
}

/// Reads a hostfile of Open MPI: a line for each host, "NAME [slots=N] [KEY=VALUE...]". A host of several
/// lines has a slot for each. Leaves `hosts` empty if the file cannot be read.
void read_hostfile(const std::string& path, RequestedHosts& hosts) {
  static const std::regex given(R"(\b(?:slots|cpus?|count)\s*=\s*([0-9]{1,6}))");
  std::map<std::string, int> lines_of;
  std::error_code unknown;
  if (!fs::is_regular_file(path, unknown)) return;  // a pipe is already empty
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    line.resize(std::min(line.size(), line.find('#')));
    std::istringstream words(line);
    std::string host;
    if (!(words >> host) || host.starts_with('^') || host.starts_with('+')) continue;
    host = host.substr(host.find('@') + 1);  // USER@HOST
    std::smatch slots;
    hosts.slots[host] += std::regex_search(line, slots, given) ? std::stoi(slots[1]) : 0;
    ++lines_of[host];
  }
  for (auto& [host, slots] : hosts.slots)
    if (slots == 0 && lines_of[host] > 1) slots = lines_of[host];
}

/// Reads the value of mpirun's --host: "NAME[:SLOTS],...". A host without a number has a slot.
void read_host_option(const std::string& value, RequestedHosts& hosts) {
  std::istringstream entries(value);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const std::size_t colon = entry.find(':');
    const int slots = colon == std::string::npos ? 1 : std::atoi(entry.c_str() + colon + 1);
    hosts.slots[entry.substr(0, colon)] += slots;
  }
}

/// Expands an entry of Slurm's list of hosts: "n[01-02,7]" names n01, n02 and n7. Returns none if it is not
/// valid.
std::vector<std::string> expand_entry(const std::string& entry) {
  const std::size_t open = entry.find('[');
  const std::size_t close = entry.find(']', std::min(open, entry.size()));
  if (open == std::string::npos) return {entry};
  if (close == std::string::npos) return {};
  const std::vector<std::string> ends = expand_entry(entry.substr(close + 1));
  if (ends.empty()) return {};
  std::vector<std::string> hosts;
  std::istringstream ranges(entry.substr(open + 1, close - open - 1));
  for (std::string range; std::getline(ranges, range, ',');) {
    const std::string first = range.substr(0, range.find('-'));
    const long last = std::atol(range.substr(range.find('-') + 1).c_str());
    constexpr std::size_t max_hosts = 100000;
    for (long i = std::atol(first.c_str()); i <= last && hosts.size() < max_hosts; ++i) {
      std::string number = std::to_string(i);
      number.insert(0, first.size() - std::min(first.size(), number.size()), '0');
      for (const std::string& end : ends) hosts.push_back(entry.substr(0, open) + number + end);
    }
  }
  return hosts;
}

/// Expands Slurm's list of hosts, whose entries are separated by commas outside of brackets.
std::vector<std::string> expand_hosts(const std::string& list) {
  std::vector<std::string> hosts;
  std::string entry;
  bool in_brackets = false;
  for (const char c : list + ",") {
    if (c == '[' || c == ']') in_brackets = c == '[';
    if (c != ',' || in_brackets) {
      entry += c;
      continue;
    }
    if (!entry.empty()) std::ranges::copy(expand_entry(entry), std::back_inserter(hosts));
    entry.clear();
  }
  return hosts;
}

/// Reads Slurm's allocation; SLURM_TASKS_PER_NODE is "2(x3),1" for three hosts with two tasks and one with
/// one.
void read_slurm(RequestedHosts& hosts) {
  static const std::regex entry(R"(([0-9]{1,6})(?:\(x([0-9]{1,6})\))?)");
  const std::string tasks = env_text("SLURM_TASKS_PER_NODE");
  std::vector<int> slots;
  for (std::sregex_iterator one(tasks.begin(), tasks.end(), entry), end; one != end; ++one)
    slots.insert(slots.end(), (*one)[2].matched ? std::stoul((*one)[2]) : 1, std::stoi((*one)[1]));
  const auto names = expand_hosts(env_text("SLURM_JOB_NODELIST"));
  // The variables of a step may be of fewer hosts than those of the job.
  const int most = slots.empty() ? 1 : std::ranges::max(slots);
  for (std::size_t i = 0; i < names.size(); ++i)
    hosts.slots[names[i]] += slots.size() == names.size() ? slots[i] : most;
}

RequestedHosts hosts_of_command(const Launcher& launcher) {
  constexpr std::array hostfile_options = {"--hostfile",   "-hostfile",          "--machinefile",
                                           "-machinefile", "--default-hostfile", "-default-hostfile"};
  RequestedHosts hosts;
  RequestedHosts by_name;
  for (std::size_t i = 1; i < launcher.command.size(); ++i) {
    const std::string& word = launcher.command[i];
    const std::size_t equals = word.find('=');
    const std::string option = word.substr(0, equals);
    const bool in_next = equals == std::string::npos;
    const std::string value = !in_next                          ? word.substr(equals + 1)
                              : i + 1 < launcher.command.size() ? launcher.command[i + 1]
                                                                : "";
    std::string file;
    if (std::ranges::count(hostfile_options, option) > 0) file = value;
    // --prtemca NAME VALUE. The ranks have parameters of ORTE in their environment.
    if (in_next && option == "prte_default_hostfile" && launcher.command[i - 1].ends_with("mca"))
      file = value;
    if (!file.empty()) {
      hosts.source = file;
      read_hostfile(fs::path(launcher.folder) / file, hosts);
    } else if (option == "--host" || option == "-host" || option == "-H") {
      by_name.source = option;
      read_host_option(value, by_name);
    }
  }
  return by_name.slots.empty() ? hosts : by_name;  // --host selects from a hostfile
}

}  // namespace

Launcher query_launcher(const std::string& root) {
  // Programs such as env and bash may be in between.
  constexpr int max_between = 8;
  pid_t process = getppid();
  for (int i = 0; i < max_between && process > 1; ++i) {
    const fs::path folder = format("{}/proc/{}", root, process);
    std::string name;
    std::ifstream(folder / "comm") >> name;
    const bool daemon = name.starts_with("orted") || name.starts_with("prted");
    if (daemon || name == "mpirun" || name == "mpiexec" || name == "orterun" || name == "prterun") {
      std::error_code ignored;
      Launcher found;
      const auto files = [&](const fs::path& of) { return fs::read_symlink(of / "ns/mnt", ignored); };
      if (files(folder) == files(root + "/proc/self"))
        found.program = fs::read_symlink(folder / "exe", ignored).string();
      if (daemon) return found;
      found.command = words_of(folder / "cmdline");
      found.environment = words_of(folder / "environ");
      found.folder = fs::read_symlink(folder / "cwd", ignored).string();
      return found;
    }
    process = parent_of(process, root);
  }
  return {};
}

RequestedHosts query_requested_hosts(const Launcher& launcher) {
  const bool under_mpirun = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
  if (RequestedHosts hosts = hosts_of_command(launcher); !hosts.slots.empty()) return hosts;
  // Open MPI 5 starts ranks by PRRTE, earlier versions by ORTE. The name of the other one has no effect.
  constexpr std::array variables = {"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"};
  const bool prrte = std::getenv("PRTE_LAUNCHED") != nullptr;
  for (const bool ignored : {false, true}) {
    const char* variable = variables[prrte != ignored ? 1 : 0];
    const std::string file = variable_of(launcher, variable);
    if (!under_mpirun || file.empty()) continue;
    RequestedHosts hosts;
    hosts.source = format("{} ({})", file, variable);
    if (ignored)
      hosts.ignored =
          format("Open MPI {} ignores {}; set {}", prrte ? 5 : 4, variable, variables[prrte ? 1 : 0]);
    read_hostfile(fs::path(launcher.folder) / file, hosts);
    if (!hosts.slots.empty()) return hosts;
  }
  RequestedHosts hosts;
  // Under daemons of mpirun, SLURM_TASKS_PER_NODE is the number of daemons.
  if (under_mpirun && launcher.command.empty()) return hosts;
  hosts.source = "SLURM_JOB_NODELIST";
  read_slurm(hosts);
  return hosts;
}

CheckResults check_requested_hosts(const std::vector<RankPlacement>& placements,
                                   const RequestedHosts& requested) {
  std::map<std::string, int> ranks_on;
  for (const RankPlacement& placement : placements) ++ranks_on[placement.host];
  const std::size_t possible = std::min(requested.slots.size(), placements.size());
  if (ranks_on.size() >= possible) return {};

  const auto short_name = [](const std::string& name) { return name.substr(0, name.find('.')); };
  int most = 0;
  bool all_have_slots = true;
  for (const auto& [host, slots] : requested.slots) {
    most = std::max(most, slots);
    all_have_slots = all_have_slots && slots > 0;
  }
  const bool too_many = std::ranges::any_of(ranks_on, [&](const auto& used) {
    for (const auto& [host, slots] : requested.slots)
      if (short_name(host) == short_name(used.first)) return used.second > slots;
    return used.second > most;  // the list may have an address or another name of the host
  });
  if (all_have_slots && !too_many) return {};

  std::string advice =
      "more ranks run on a host than it has slots; omit --oversubscribe, start fewer ranks, or use mpirun --map-by ppr:N:node";
  if (!all_have_slots) {
    advice =
        "without slots=, Open MPI puts as many ranks on a host as it has cores; add slots=N to each line, with the number of ranks per host";
  }
  if (!requested.ignored.empty()) advice = requested.ignored;
  return {{"launch", Severity::warn,
           format("{} ranks run on {} host{}, but {} lists {}", placements.size(), ranks_on.size(),
                  ranks_on.size() == 1 ? "" : "s", requested.source, requested.slots.size()),
           advice}};
}

CheckResults check_mpirun(const Launcher& launcher, const comm::MpiLibrary& library) {
  const std::string open_mpi = "Open MPI v";
  if (env_text("OMPI_COMM_WORLD_SIZE").empty() || !library.version.starts_with(open_mpi)) return {};
  // Open MPI 5 starts ranks by PRRTE and states its version and the folder of its libraries; earlier versions
  // start them by ORTE.
  const bool prrte = !env_text("PRTE_LAUNCHED").empty();
  std::string version = prrte ? env_text("OMPI_VERSION") : "4";
  if (version.empty()) version = "5";
  const std::string libraries = prrte ? env_text("OMPI_LIBDIR_LOC") : "";
  bool same = prrte == (std::atoi(library.version.c_str() + open_mpi.size()) >= 5);

  const auto real = [](const fs::path& path) {
    std::error_code ignored;
    return fs::weakly_canonical(path, ignored).string();
  };
  const fs::path program = launcher.program;
  const std::string file = real(library.file);
  const auto lies_in = [&](const fs::path& folder) {
    return !folder.empty() && file.starts_with(real(folder) + '/');
  };
  // PRRTE may have another prefix than Open MPI. Debian's libraries are in a folder of /usr/lib.
  if (same && !program.empty() && !file.empty() && (!prrte || !libraries.empty())) {
    const fs::path prefix = program.parent_path().parent_path();
    same = lies_in(prefix / "lib") || lies_in(prefix / "lib64") || lies_in(libraries);
  }
  if (same) return {};
  const auto at = [](const std::string& path) { return path.empty() ? "" : format(" ({})", path); };
  return {
      {"mpi", Severity::warn,
       format("mpirun is that of Open MPI {}{}, but the program has loaded {}{}", version,
              at(launcher.program), library.version, at(library.file)),
       "use the mpirun of this library, or put the folder of mpirun's libmpi first into LD_LIBRARY_PATH"}};
}

}  // namespace vaecf::app
