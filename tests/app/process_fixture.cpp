#include "app/process_fixture.hpp"

#include <vaecf/base/error.hpp>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

namespace vaecf::app {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns the beginning of a command line: under mpirun if `ranks` > 0.
std::string on_ranks(int ranks) {
  return ranks > 0 ? "$MPIRUN -np " + std::to_string(ranks) + " " : "";
}

}  // namespace

TempWorkspace::TempWorkspace() {
  std::filesystem::create_directory(folder_ / "w");
  // The path of the build folder may contain spaces; that of the link does not.
  std::filesystem::create_symlink(VAECF_PROGRAM, folder_ / "vaecf_dist");
}

Result TempWorkspace::bash(const std::string& line, int seconds) const {
  Result result = run(line, seconds, (folder_ / "out").string());
  result.out = read_file(folder_ / "out");
  return result;
}

Result TempWorkspace::on_terminal(const std::string& arguments, int ranks) const {
  const int screen = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  EXPECT_TRUE(screen >= 0 && grantpt(screen) == 0 && unlockpt(screen) == 0);
  const std::string name = ptsname(screen);
  const int held = open(name.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  std::string shown;
  // The terminal stores only a few kilobytes. Reading fails when no process has it open.
  std::thread reader([&] {
    std::array<char, 4096> piece{};
    for (ssize_t got = 0; (got = ::read(screen, piece.data(), piece.size())) > 0;)
      shown.append(piece.data(), static_cast<std::size_t>(got));
  });
  Result result = run(on_ranks(ranks) + "$PROGRAM " + arguments, 60, name);
  close(held);
  reader.join();
  close(screen);
  result.out = shown;
  return result;
}

Result TempWorkspace::run(const std::string& line, int seconds, const std::string& out) const {
  // Ranks share the cores with other tests, so they yield while they wait. Leak checking is off because MPI
  // does not free all memory.
  const std::string settings =
      "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 "
      "OMP_WAIT_POLICY=passive OMPI_MCA_mpi_yield_when_idle=1\n"
      "export ASAN_OPTIONS=detect_leaks=0\n"
      "export MPIRUN='" VAECF_MPIRUN
      " --oversubscribe --bind-to none'\n"
      "unset VAECF_PROGRESS\n";
  std::ofstream(folder_ / "script") << settings << "export PROGRAM=" << (folder_ / "vaecf_dist").string()
                                    << "\ncd '" << (folder_ / "w").string() << "'\n"
                                    << line << "\n";
  const std::string call = "timeout -k 5 " + std::to_string(seconds) + " bash '" +
                           (folder_ / "script").string() + "' > '" + out + "' 2> '" +
                           (folder_ / "err").string() + "' < /dev/null";
  const int status = std::system(call.c_str());
  Result result;
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.err = read_file(folder_ / "err");
  return result;
}

Result TempWorkspace::program(const std::string& arguments, int ranks) const {
  return bash(on_ranks(ranks) + "$PROGRAM " + arguments);
}

Result TempWorkspace::succeed(const std::string& arguments, int ranks) const {
  const Result result = program(arguments, ranks);
  EXPECT_EQ(result.code, 0) << arguments << "\n" << result.out << result.err;
  return result;
}

Result TempWorkspace::refuse(const std::string& arguments, const std::string& part, int ranks,
                             int code) const {
  SCOPED_TRACE(arguments);
  Result result = program(arguments, ranks);
  expect_refused(result, part, code);
  return result;
}

Result TempWorkspace::two_ranks(const std::string& first_line, const std::string& second_line) const {
  write("rank0", first_line + "\n");
  write("rank1", second_line + "\n");
  return bash("$MPIRUN -np 2 bash -c '. ./rank$OMPI_COMM_WORLD_RANK'");
}

void TempWorkspace::write(const std::string& name, const std::string& text) const {
  std::ofstream(folder_ / "w" / name, std::ios::binary) << text;
}

std::string TempWorkspace::read(const std::string& name) const {
  return read_file(folder_ / "w" / name);
}

bool TempWorkspace::exists(const std::string& name) const {
  return std::filesystem::exists(folder_ / "w" / name);
}

int TempWorkspace::events(const std::string& name, const std::string& run) const {
  return count(read("runs/" + run + "/metrics.jsonl"), "\"event\":\"" + name + "\"");
}

std::vector<std::string> TempWorkspace::files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "w")) {
    if (entry.is_regular_file()) names.push_back(std::filesystem::relative(entry.path(), folder_ / "w"));
  }
  std::sort(names.begin(), names.end());
  return names;
}

void TempWorkspace::make_small_run(int users) const {
  succeed("synthesize data.h5 --users " + std::to_string(users) +
          " --items 60 --interactions-per-user 12 --validation-users 20 --test-users 20 "
          "--tastes 4 --quiet");
  write("small.yaml",
        "name: small\n"
        "data: {file: data.h5, virtual_shards: 4}\n"
        "model: {hidden: [16], latent: 8}\n"
        "train: {epochs: 2, batch_size: 40, precision: fp32, annealing: {steps: 10}}\n"
        "evaluation: {metrics: [ndcg@10, recall@5]}\nvalidation: {select: ndcg@10}\n"
        "device: cpu\n");
}

Result TempWorkspace::interrupted(const std::string& command, const std::string& then) const {
  return bash("rm -rf runs\n" + command + " --train --set train.epochs=1000000 & job=$!\n" +
              until_first_epoch + then + "\nwait $job; echo \"code $?\"");
}

void expect_refused(const Result& result, const std::string& part, int code) {
  EXPECT_EQ(result.code, code) << result.err;
  EXPECT_EQ(result.out, "");
  expect_in(result.err, {part});
  EXPECT_EQ(count(result.err, "vaecf_dist: "), 1) << result.err;
}

std::vector<Recommended> lines_of(const std::string& tsv) {
  std::istringstream in(tsv);
  std::string header;
  std::getline(in, header);
  EXPECT_EQ(header, "user\titem\tscore");
  std::vector<Recommended> lines;
  for (std::string score; in >> score;) {
    Recommended line{score, "", 0.0};
    in >> line.item >> score;
    line.score = std::stod(score);  // streams cannot parse "nan"
    lines.push_back(line);
  }
  return lines;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

std::string made_ratings(int users) {
  std::string text = "userId,movieId,rating,timestamp\n";
  for (int user = 1; user <= users; ++user) {
    for (int item = 0; item < 6; ++item) text += format("{},{},4.5,0\n", user, (user + item) % 9 + 1);
  }
  return text;
}

void expect_same_scores(const TempWorkspace& workspace, const std::string& run, const std::string& input,
                        int scores) {
  for (const char* file : {"m.onnx", "m.safetensors"}) {
    const std::string command = format("export runs/{}/checkpoints/best.h5 --quiet --output {}", run, file);
    EXPECT_EQ(workspace.succeed(command).err, "");
  }
  const Result checked = workspace.bash(
      "${VAECF_PYTHON:-python3} '" VAECF_EXPORT_CHECK "' '" VAECF_EXPORT_PAGE "' new.csv top.tsv " + input);
  if (checked.code == 77 || checked.code == 127) {
    const std::string missing =
        "needs a Python with onnx (python3-onnx, or VAECF_PYTHON=...): " + checked.out + checked.err;
    const char* const required = std::getenv("VAECF_REQUIRE_EXTRAS");
    if (required != nullptr && required == std::string_view("1")) FAIL() << missing;
    GTEST_SKIP() << missing;
  }
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_EQ(checked.out, format("{} scores agree\n", scores));
}

}  // namespace vaecf::app
