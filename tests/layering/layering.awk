# Reads sources (paths relative to the repository's root) and prints every place where a room reaches where it must
# not. The tables in BEGIN are the house's plan: which rooms a room may include, and who owns which library.
BEGIN {
  allowed["base"] = ""
  allowed["math"] = "base"
  allowed["io"] = "base"
  allowed["backend"] = "math base"
  allowed["comm"] = "backend base"
  allowed["data"] = "io math base"
  allowed["model"] = "backend math base"
  allowed["optim"] = "backend math base"
  allowed["train"] = "model optim comm data backend io math base"
  allowed["scaling"] = "io base"
  allowed["config"] = "scaling train model optim comm data backend math base"  # option structs, and the names of metrics
  allowed["app"] = "config scaling train model optim comm data backend io math base"

  # The only folder under src/ and include/vaecf/ that may name a library.
  owner["CLI11"] = "app"
  owner["yaml-cpp"] = "config"
  owner["MPI"] = "comm"
  owner["NCCL"] = "comm"
  owner["OpenMP"] = "backend"
  owner["oneDNN"] = "backend"
  owner["CUDA"] = "backend/cuda"
  owner["HDF5"] = "io"
  owner["nlohmann-json"] = "io"
  owner["xxhash"] = "io"
  owner["libarchive"] = "io"
  owner["libbson"] = "io"
  owner["OpenSSL"] = "io"
  owner["fmt"] = "base"
  owner["spdlog"] = "base"

  # Names of CMake targets and packages, by library.
  cmake["CLI11::CLI11"] = "CLI11"
  cmake["yaml-cpp"] = cmake["vaecf_yaml"] = "yaml-cpp"
  cmake["MPI::MPI_C"] = cmake["vaecf_mpi"] = "MPI"
  cmake["vaecf_nccl"] = "NCCL"
  cmake["OpenMP::OpenMP_CXX"] = "OpenMP"
  cmake["vaecf_cudart"] = cmake["vaecf_cublaslt"] = cmake["vaecf_cusparse"] = "CUDA"
  cmake["vaecf_dnnl"] = "oneDNN"
  cmake["hdf5::hdf5"] = "HDF5"
  cmake["nlohmann_json::nlohmann_json"] = "nlohmann-json"
  cmake["vaecf_xxhash"] = "xxhash"
  cmake["LibArchive::LibArchive"] = cmake["vaecf_archive"] = "libarchive"
  cmake["vaecf_bson"] = "libbson"
  cmake["OpenSSL::Crypto"] = cmake["OpenSSL::SSL"] = "OpenSSL"
  cmake["fmt::fmt"] = "fmt"
  cmake["spdlog::spdlog"] = "spdlog"
  bad = 0
}

function complain(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; bad++ }

# The room of a path, "" outside the rooms; sets `place`, the path below src/ or include/vaecf/.
function room_of(path,   parts) {
  place = ""
  if (path ~ /^src\/[a-z]+\//) place = substr(path, 5)
  else if (path ~ /^include\/vaecf\/[a-z]+\//) place = substr(path, 15)
  if (place == "") return ""
  split(place, parts, "/")
  return parts[1]
}

function may_include(from, to) { return from == to || index(" " allowed[from] " ", " " to " ") > 0 }

function orders_streams(name) {
  if (name ~ /^cuda(Stream|Event)/) return name !~ /Synchronize|Capture|Attach|MemOp/
  return name ~ /^cuda(Error_t|Success|ErrorNotReady|GetErrorString|GetLastError|DeviceGetStreamPriorityRange)$/
}

function uses(library, name) {
  if (index(place, owner[library] "/") == 1) return
  # The file that hands NCCL its stream orders it by events, with the calls for that and nothing else of CUDA: no
  # memory, no kernels, and no waits that nothing could end.
  if (library == "CUDA" && place == "comm/nccl_communicator.cpp" && orders_streams(name)) return
  if (place == "comm/CMakeLists.txt" && name == "vaecf_cudart") return
  if (library == "CUDA" && name == "__CUDACC__" && place == "base/host_device.hpp") return
  if (library == "CUDA" && name ~ /^__(host|device)__$/ && place == "base/host_device.hpp") return
  complain("`" name "`: " library " belongs to " owner[library] ", not to " room)
}

function library_of_include(file) {
  if (file ~ /^CLI\//) return "CLI11"
  if (file ~ /^yaml-cpp\//) return "yaml-cpp"
  if (file ~ /^mpi/) return "MPI"
  if (file ~ /^nccl/) return "NCCL"
  if (file ~ /^omp\.h/) return "OpenMP"
  if (file ~ /dnnl/) return "oneDNN"
  if (file ~ /^(cuda|cublas|cusparse|nvtx|cub\/|thrust\/|cooperative_groups)/) return "CUDA"
  if (file ~ /^(hdf5|H5)/) return "HDF5"
  if (file ~ /^nlohmann\//) return "nlohmann-json"
  if (file ~ /^xxh/) return "xxhash"
  if (file ~ /^archive(_entry)?\.h/) return "libarchive"
  if (file ~ /^bson\//) return "libbson"
  if (file ~ /^openssl\//) return "OpenSSL"
  if (file ~ /^fmt\//) return "fmt"
  if (file ~ /^spdlog\//) return "spdlog"
  return ""
}

# `after` is what follows the name in its line.
function library_of_name(name, after) {
  if (name ~ /^MPI_/) return "MPI"
  if (name ~ /^nccl[A-Z]/) return "NCCL"
  if (name ~ /^H5[A-Z]/) return "HDF5"
  if (name ~ /^omp_[a-z]/) return "OpenMP"
  if (name ~ /^dnnl/) return "oneDNN"
  if (name ~ /^(cuda[A-Z]|cublas|cusparse|nvtx[A-Z]|CUBLAS|CUSPARSE|CUDART)/) return "CUDA"
  if (name ~ /^__(host|device|global|shared)__$/ || name == "__CUDACC__") return "CUDA"
  if (name ~ /^XXH[0-9_]/) return "xxhash"
  if (name ~ /^archive_(read|write|entry)_/) return "libarchive"
  if (name ~ /^bson_/) return "libbson"
  if (name ~ /^(EVP|OPENSSL)_|^evp_md_/) return "OpenSSL"
  if (after ~ /^::/) {
    if (name == "CLI") return "CLI11"
    if (name == "YAML") return "yaml-cpp"
    if (name == "nlohmann") return "nlohmann-json"
    if (name == "fmt") return "fmt"
    if (name == "spdlog") return "spdlog"
  }
  return ""
}

function check_include(line,   file, parts, library) {
  if (match(line, /<[^>]*>/)) {
    file = substr(line, RSTART + 1, RLENGTH - 2)
    if (file == "cuda.h") complain("<cuda.h> is the driver's interface: use the runtime's, so that no libcuda is needed")
    if (file ~ /^vaecf\//) {
      split(file, parts, "/")
      if (room != "" && !(parts[2] in allowed)) complain("<" file ">: there is no room " parts[2])
      else if (room != "" && !may_include(room, parts[2])) complain("<" file ">: " room " may not include " parts[2])
    } else if (room != "") {
      library = library_of_include(file)
      if (library != "") uses(library, "<" file ">")
    }
  } else if (match(line, /"[^"]*"/)) {
    file = substr(line, RSTART + 1, RLENGTH - 2)
    if (FILENAME ~ /^include\//) complain("\"" file "\": a public header includes public headers only, as <vaecf/...>")
    else if (room != "" && file ~ /\.\.\//) complain("\"" file "\": a room's own headers only, without ../")
    else if (room != "" && file ~ /\//) {
      split(file, parts, "/")
      if ((parts[1] in allowed) && parts[1] != room) complain("\"" file "\": a private header of " parts[1])
      if (parts[1] == "vaecf") complain("\"" file "\": public headers are included as <vaecf/...>")
    }
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

function check_names(line,   name, library) {
  while (match(line, /[A-Za-z_][A-Za-z0-9_]*/)) {
    name = substr(line, RSTART, RLENGTH)
    line = substr(line, RSTART + RLENGTH)
    library = library_of_name(name, line)
    if (library != "") uses(library, name)
    # No loss can do without a logarithm, and a backend needs one for nothing else.
    if (room == "backend" && name ~ /^(__)?log(2|10|1p)?f?$/ && line ~ /^[ \t]*\(/)
      complain("`" name "`: the loss is math/loss.hpp, which every kernel calls")
  }
}

# Only rooms that sanitizers watch for misaligned access (BYTES of vaecf_room) may take bytes for values.
function takes_bytes() { return index(" io backend comm ", " " room " ") > 0 }
function check_casts(line,   to) {
  if (takes_bytes()) return
  while (match(line, /reinterpret_cast<[^>]*>/)) {
    to = substr(line, RSTART + 17, RLENGTH - 18)
    line = substr(line, RSTART + RLENGTH)
    if (to !~ /^(const )?(char|unsigned char|std::byte) ?\*$/) complain("reinterpret_cast<" to ">: " room " may look at values as bytes, not at bytes as values")
  }
}

function check_cmake(line,   words, count, i, name, other) {
  sub(/#.*/, "", line)
  if (line ~ /^vaecf_room\(/ && (line ~ / BYTES( |$)/) != takes_bytes())
    complain("vaecf_room(" room "): BYTES is for the rooms that may take bytes for values, and for all of them")
  if (line ~ /\(/) in_rooms = 0
  gsub(/[()"]/, " ", line)
  count = split(line, words, /[ \t]+/)
  for (i = 1; i <= count; i++) {
    name = words[i]
    if (name == "ROOMS") in_rooms = 1
    else if (name ~ /^[A-Z]+$/) in_rooms = 0
    else if (in_rooms && name ~ /^[a-z]+$/ && !may_include(room, name)) complain(name ": " room " may not link it")
    if (name in cmake) uses(cmake[name], name)
    if (name ~ /^vaecf_/) {
      other = substr(name, 7)
      if ((other in allowed) && !may_include(room, other)) complain(name ": " room " may not link it")
    }
    if (name ~ /cuda_driver|^-lcuda$/) complain(name ": never link the driver, so that the program starts without it")
  }
}

FNR == 1 {
  if (previous != "") end_of_file()
  previous = FILENAME
  room = room_of(FILENAME)
  in_comment = in_rooms = has_guard = 0
  is_cmake = FILENAME ~ /CMakeLists\.txt$|\.cmake$/
  is_code = FILENAME ~ /\.(cpp|hpp|cu|cuh)$/
  is_header = FILENAME ~ /\.(hpp|cuh)$/
  if (room != "" && !(room in allowed)) complain("there is no room " room)
}

function end_of_file() {
  if (is_header && !has_guard) printf "%s:1: no #pragma once\n", previous
  if (is_header && !has_guard) bad++
  if (lines > 400 && previous !~ /\.txt$|\.csv$|\.json$/) { printf "%s:%d: over 400 lines\n", previous, lines; bad++ }
}

{ lines = FNR }
is_cmake && room != "" { check_cmake($0) }
is_code {
  if ($0 ~ /^#pragma once/) has_guard = 1
  code = code_of($0)
  if (code ~ /^[ \t]*#[ \t]*include/) check_include(code)
  else if (room != "") {
    check_names(code)
    check_casts(code)
    if (code ~ /#[ \t]*pragma[ \t]+omp/) uses("OpenMP", "#pragma omp")
    if (room == "math" && code ~ /__CUDA_ARCH__/) complain("__CUDA_ARCH__: a formula is the same on host and device")
  }
}

END {
  if (previous != "") end_of_file()
  exit bad > 0
}
