# Reads sources (paths relative to the repository's root) and prints every place where a module reaches where it must
# not: which modules a module may include, and which module alone may name a library.
BEGIN {
  model_name = "\"(" (models_named == "" ? "ease" : models_named) ")\""
  # What each module, or folder of one, may include: modules, folders and headers of the others.
  allowed["base"] = ""
  allowed["math"] = "base"
  allowed["io"] = "base"
  allowed["keys"] = "io base"
  allowed["device"] = "math base"
  allowed["comm"] = "device/model_parallel_group.hpp device/array.hpp base"
  allowed["context"] = "comm device base"
  allowed["data"] = "io math base"
  allowed["models"] = "keys context comm io device math base"
  # Every other folder of models is a model, and knows no other one.
  allowed["models/linear"] = allowed["models/network"] = "models " allowed["models"]
  of_a_model = "models/linear models/network models " allowed["models"]
  allowed["training"] = "models context comm data io device math base"
  # Option structs, the names of metrics, and JSON.
  allowed["config"] = "training/options.hpp models keys comm data io device math base"
  allowed["evaluate"] = "models context comm data io device math base"
  # Of config, the functions of the configuration that a checkpoint stores.
  allowed["checkpoint"] = "config/config.hpp training models context comm data io device math base"
  allowed["run"] = "checkpoint evaluate training models config context comm data io device math base"
  allowed["capi"] = allowed["app"] = "run " allowed["run"]

  # Library, the only folder under src/ and include/vaecf/ that may name it, its headers, its names.
  library("CLI11", "app", "^CLI/", "CLI::")
  library("yaml-cpp", "config", "^yaml-cpp/", "YAML::")
  library("MPI", "comm", "^mpi", "MPI_")
  library("NCCL", "comm", "^nccl", "nccl[A-Z]")
  library("OpenMP", "device", "^omp\\.h", "omp_[a-z]|pragma omp")
  library("oneDNN", "device", "dnnl", "dnnl")
  library("CUDA", "device/cuda", "^(cuda|cublas|cusparse|nvtx|cub/|thrust/|cooperative_groups)",
          "(cuda|nvtx)[A-Z]|cublas|cusparse|CUBLAS|CUSPARSE|CUDART|__(host|device|global|shared)__|__CUDACC__")
  library("HDF5", "io", "^(hdf5|H5)", "H5[A-Z]")
  library("nlohmann-json", "io", "^nlohmann/", "nlohmann::")
  library("xxhash", "io", "^xxh", "XXH[0-9_]")
  library("libarchive", "io", "^archive(_entry)?\\.h", "archive_(read|write|entry)_")
  library("libbson", "io", "^bson/", "bson_")
  library("fmt", "base", "^fmt/", "fmt::")
  library("spdlog", "base", "^spdlog/", "spdlog::")

  # Only modules that sanitizers watch for misaligned access (ALIGNMENT_SANITIZER of vaecf_add_module) may take bytes for values.
  takes_bytes["io"] = takes_bytes["device"] = takes_bytes["comm"] = 1
  bad = 0
}

function library(name, folder, header, names) {
  owner[name] = folder
  headers[name] = header
  names_of[name] = "(^|[^A-Za-z0-9_])(" names ")[A-Za-z0-9_]*"
  any_name = any_name (any_name == "" ? "" : "|") names
}

function complain(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; bad++ }

# The module of a path, "" outside the modules; sets `place`, the path below src/ or include/vaecf/, and `folder`, the
# folder that `allowed` has a row for.
function module_of(path,   parts) {
  place = ""
  if (path ~ /^src\/[a-z]+\//) place = substr(path, 5)
  else if (path ~ /^include\/vaecf\/[a-z]+\//) place = substr(path, 15)
  folder = folder_of(place)
  split(place, parts, "/")
  return parts[1]
}

function folder_of(file,   parts) {
  split(file, parts, "/")
  if (parts[1] == "models" && parts[3] != "" && !((parts[1] "/" parts[2]) in allowed)) allowed[parts[1] "/" parts[2]] = of_a_model
  return (parts[1] "/" parts[2]) in allowed ? parts[1] "/" parts[2] : parts[1]
}

function check_reach(file,   target, parts) {
  target = folder_of(file)
  split(file, parts, "/")
  if (parts[1] != module) reached[module " " parts[1]] = FILENAME ":" FNR
  if (target != folder && index(" " allowed[folder] " ", " " target " ") == 0 &&
      index(" " allowed[folder] " ", " " file " ") == 0)
    complain("<vaecf/" file ">: " folder " may not include " (index(allowed[folder], target "/") ? file : target))
}

function uses(name, what) {
  if (index(place, owner[name] "/") == 1) return
  if (name == "yaml-cpp" && module == "keys") return  # reads the values of nodes
  if (name == "CUDA" && place == "base/host_device.hpp" && what ~ /^__(CUDACC|host|device)__$/) return
  # The file that hands NCCL its stream orders it by events, with the calls for that and nothing else of CUDA: no
  # memory, no kernels, and no waits that nothing could end.
  if (name == "CUDA" && place == "comm/nccl/nccl_communicator.cpp" && what !~ /Synchronize|Capture|Attach|MemOp/ &&
      what ~ /^cuda(Stream|Event|Error_t|Success|ErrorNotReady|GetErrorString|GetLastError|DeviceGetStreamPriorityRange)/)
    return
  complain("`" what "`: " name " belongs to " owner[name] ", not to " module)
}

function check_include(line,   file, parts, name) {
  if (module != "" && FILENAME ~ /\.hpp$/ && !conditions && line ~ /<(cu[a-zA-Z0-9_]*|nccl)\.h>|\.cuh"/)
    complain("a header that needs CUDA or NCCL is named .cuh: each .hpp is compiled alone, also where there is none")
  if (match(line, /<[^>]*>/)) {
    file = substr(line, RSTART + 1, RLENGTH - 2)
    if (file == "cuda.h") complain("<cuda.h> is the driver's interface: use the runtime's, so that no libcuda is needed")
    if (module == "") return
    split(file, parts, "/")
    if (file ~ /^vaecf\//) check_reach(substr(file, 7))
    # The library vaecf_comm_mpi; what only scores is linked without it.
    if (file ~ /^vaecf\/comm\/(mpi|nccl|launcher|watchdog)\.hpp$/ && module != "comm" && module != "app")
      complain("<" file ">: only app and comm start and watch ranks")
    if (file ~ /^vaecf\//) {
      if (parts[2] != module) needed["include/" file] = 1
      else if (FILENAME ~ /^include\//) includes[FILENAME] = includes[FILENAME] " include/" file
    }
    for (name in owner) if (file !~ /^vaecf\// && file ~ headers[name]) uses(name, "<" file ">")
  } else if (match(line, /"[^"]*"/)) {
    file = substr(line, RSTART + 1, RLENGTH - 2)
    split(file, parts, "/")
    if (FILENAME ~ /^include\//) complain("\"" file "\": a public header includes public headers only, as <vaecf/...>")
    else if (module == "") return
    else if (file ~ /\.\.\//) complain("\"" file "\": a module's own headers only, without ../")
    else if (parts[1] == "vaecf") complain("\"" file "\": public headers are included as <vaecf/...>")
    else if ((parts[1] in allowed) && parts[1] != module) complain("\"" file "\": a private header of " parts[1])
    else if (parts[1] in allowed) check_reach(file)
  }
}

# Without comments and, except in includes, without string literals; keeps track of /* */ over lines.
function code_of(line,   at) {
  if (line !~ /^[ \t]*#[ \t]*include/) gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
  if (in_comment) {
    at = index(line, "*/")
    if (!at) return ""
    line = substr(line, at + 2)
    in_comment = 0
  }
  gsub(/\/\*([^*]|\*[^\/])*\*\//, " ", line)
  sub(/\/\/.*/, "", line)
  at = index(line, "/*")
  if (at) {
    line = substr(line, 1, at - 1)
    in_comment = 1
  }
  return line
}

function check_names(line,   name, rest, what) {
  if (line ~ any_name) {
    for (name in owner) {
      for (rest = line; match(rest, names_of[name]); rest = substr(rest, RSTART + RLENGTH)) {
        what = substr(rest, RSTART, RLENGTH)
        sub(/^[^A-Za-z0-9_]/, "", what)
        uses(name, what)
      }
    }
  }
  # No loss can do without a logarithm, and a device needs one for nothing else.
  if (module == "device" && line ~ /(^|[^A-Za-z0-9_])(__)?log(2|10|1p)?f?[ \t]*\(/)
    complain("the loss is math/loss.hpp, which every kernel calls")
  if (module == "math" && line ~ /__CUDA_ARCH__/) complain("__CUDA_ARCH__: a formula is the same on host and device")
  while (!(module in takes_bytes) && match(line, /reinterpret_cast<[^>]*>/)) {
    what = substr(line, RSTART, RLENGTH)
    line = substr(line, RSTART + RLENGTH)
    if (what !~ /<(const )?(char|unsigned char|std::byte) ?\*>$/)
      complain(what ": " module " may look at values as bytes, not at bytes as values")
  }
}

# Only the folder of a model knows what is special about it.
function check_model_names(line) {
  if (line ~ ("[!=]= *" model_name "|" model_name " *[!=]="))
    complain("a comparison of a model's name: ask models::Kind")
}

function check_cmake(line) {
  if (line ~ /^vaecf_add_module\(/ && (line ~ / ALIGNMENT_SANITIZER( |$)/) != (module in takes_bytes))
    complain("vaecf_add_module(" module "): ALIGNMENT_SANITIZER is for the modules that may take bytes for values, and for all of them")
  check_depends(line)
  if (line ~ /cuda_driver|-lcuda( |$)/) complain("never link the driver, so that the program starts without it")
}

# DEPENDS of vaecf_add_module, which may go on over lines. A library of a module's part, as comm_mpi, counts as the module.
function check_depends(line,   words, count, i) {
  sub(/#.*/, "", line)
  count = split(line, words, /[ \t]+/)
  for (i = 1; i <= count; i++) {
    if (words[i] == "DEPENDS") { in_depends = 1; continue }
    if (words[i] ~ /^[A-Z(]/) in_depends = 0
    if (!in_depends || words[i] == "") continue
    if (words[i] ~ /\)$/) { sub(/\).*/, "", words[i]); in_depends = -1 }
    sub(/_.*/, "", words[i])
    if (words[i] != "" && words[i] != module) depends[module " " words[i]] = FILENAME ":" FNR
    if (in_depends == -1) in_depends = 0
  }
  declares[module] = 1
}

# Every module that another one includes is in its DEPENDS, and no other.
function check_dependencies(   pair, parts) {
  for (pair in reached) {
    split(pair, parts, " ")
    if (!(parts[1] in declares) || (pair in depends)) continue
    printf "%s: %s is not in DEPENDS of %s\n", reached[pair], parts[2], parts[1]
    bad++
  }
  for (pair in depends) {
    if (pair in reached) continue
    split(pair, parts, " ")
    printf "%s: %s is in DEPENDS of %s, which includes nothing of it\n", depends[pair], parts[2], parts[1]
    bad++
  }
}

function end_of_file() {
  if (previous ~ /\.(hpp|cuh)$/ && !has_guard) { printf "%s:1: no #pragma once\n", previous; bad++ }
  if (lines > 400 && previous !~ /\.txt$|\.csv$|\.json$/) { printf "%s:%d: over 400 lines\n", previous, lines; bad++ }
}

FNR == 1 {
  if (previous != "") end_of_file()
  previous = FILENAME
  module = module_of(FILENAME)
  in_comment = has_guard = conditions = 0
  if (module != "" && !(module in allowed)) complain("there is no module " module)
  if (FILENAME ~ /^include\/.*\.hpp$/) public[FILENAME] = 1
}
{ lines = FNR }
/^#pragma once/ { has_guard = 1 }
module != "" && FILENAME ~ /CMakeLists\.txt$|\.cmake$/ { check_cmake($0) }
FILENAME ~ /\.(cpp|hpp|cu|cuh)$/ {
  if (module != "") check_model_names($0)
  code = code_of($0)
  if (code ~ /^[ \t]*#[ \t]*if/) conditions++
  if (code ~ /^[ \t]*#[ \t]*endif/) conditions--
  if (code ~ /^[ \t]*#[ \t]*include/) check_include(code)
  else if (module != "") check_names(code)
}

# A public header is needed if another module includes it, or a needed header of its own module does.
function check_public_headers(   path, found, files, count, i) {
  do {
    found = 0
    for (path in includes) {
      if (!(path in needed)) continue
      count = split(includes[path], files, " ")
      for (i = 1; i <= count; i++) if (!(files[i] in needed)) found = needed[files[i]] = 1
    }
  } while (found)
  for (path in public) if (!(path in needed)) {
    printf "%s:1: no other module includes it: it belongs beside its sources, in src/\n", path
    bad++
  }
}

END {
  if (previous != "") end_of_file()
  check_public_headers()
  check_dependencies()
  exit bad > 0
}
