# Prints the launches of one training step in their order, with the time that each needs at least:
#   awk -v items=N -v interactions=N [-v graph_us=N] [-v title=TEXT -v below=FILE] -f gpu-kernels.awk CSV
# CSV is a page `raw` of ncu in base units with gpu__time_duration.sum and dram__bytes.sum, of steps of Mult-VAE with its default
# widths in bf16, without CUDA graphs. The first line is a summary. What is below 0.6 of its bound is appended to FILE.
# Exits 1 if CSV contains no whole step.
#
# The bound of a launch follows from the shapes. It is the largest of three times: of the bytes that it must read and write, by
# the rate of the memory, or that of the L2 cache if they fit into it; of its operations, by the rate of the tensor cores; and of
# the table rows that it reads once per interaction, by the rate of the L2 cache. Launches that compute one thing together, as a
# product and the sum of its parts, have one bound, which is divided among them as their times are.

BEGIN {
  FS = "\",\""
  hidden = 600; latent = 200; keep = 0.5  # of the default model
  # Per multiprocessor. Data sheets of H100, H200 and A100: 989 and 312 TFLOP/s in bf16. The rate of the L2 cache of an H100
  # was measured; without it, L2 counts as memory.
  tflops["9.0"] = 989 / 132; l2_tb["9.0"] = 5.5 / 132
  tflops["8.0"] = 312 / 108
}

function value(column,  text) {
  text = column in at ? $at[column] : 0
  gsub(/,/, "", text)
  return text + 0
}

!/^"/ { next }
{ sub(/^"/, ""); sub(/"$/, "") }
!("ID" in at) { for (i = 1; i <= NF; ++i) at[$i] = i; next }
$at["ID"] == "" { next }  # the units
{
  name[++n] = short($at["Kernel Name"])
  us[n] = value("gpu__time_duration.sum") / 1e3
  mb[n] = value("dram__bytes.sum") / 1e6
  stream[n] = $at["Stream"]
  grid[n] = substr($at["Grid Size"], 2) + 0  # of "(500, 1, 1)"
  multiprocessors = value("device__attribute_multiprocessor_count")
  capability = sprintf("%.1f", value("CC"))
  peak = 1e6 * tflops[capability] * multiprocessors  # operations per us
  l2 = 1e6 * l2_tb[capability] * multiprocessors     # bytes per us
  l2_bytes = value("device__attribute_l2_cache_size")
  # Two transfers a clock, of bits; the clock is in kHz.
  dram = 2e-3 * value("device__attribute_memory_clock_rate") * value("device__attribute_global_memory_bus_width") / 8
}
# The shortest of the whole steps with the most users: the last one of an epoch has fewer, and the first one tries algorithms.
name[n] ~ /^EncodeUser/ { of_step = grid[n] }
name[n] ~ /BeginStep/ {
  if (begin && (of_step > users || (of_step == users && n - begin <= last - first))) {
    first = begin; last = n - 1; users = of_step
  }
  begin = n
}

# Returns the name of a kernel with its template arguments, without namespaces. Those of libraries are cut: their inner name, or
# what is before the arguments.
function short(text) {
  if (match(text, /cutlass_[0-9]+_[A-Za-z0-9_]+/) || match(text, /nvjet_[A-Za-z0-9_]+/)) return substr(text, RSTART, RLENGTH)
  sub(/^void /, "", text)
  gsub(/<unnamed>::|\(anonymous namespace\)::|[A-Za-z_0-9]+::/, "", text)
  if (sub(/^run_body</, "", text)) { sub(/>\(.*/, "", text); return text }
  sub(/[<(].*/, "", text)
  return text
}
function kernel(i,  text) { text = name[i]; sub(/^PerElement</, "", text); sub(/[<,>].*/, "", text); return text }
function is_product(i) { return name[i] ~ /cutlass|nvjet|gemm/ }

function larger(a, b) { return a > b ? a : b }
# Sets the bound of group `of` from bytes, operations and bytes that are read from the L2 cache.
function need(of, bytes, operations, from_l2) {
  if (!dram || (operations && !peak)) return
  bound[of] = bytes / (l2 && bytes <= l2_bytes ? l2 : dram)
  if (operations) bound[of] = larger(bound[of], operations / peak)
  if (l2) bound[of] = larger(bound[of], from_l2 / l2)
}
# A product of (m, k) and (k, n) in bf16 with results of so many bytes, which are read as well if it adds to them.
function product(of, m, n, k, result, adds) {
  need(of, 2 * (m * k + k * n) + (adds ? 2 : 1) * result * m * n, 2 * m * n * k)
}

# Sets the bound of launch i, which is the p-th product of the step if it is one.
function formula(i, p,  k, b) {
  k = kernel(i)
  b = k ~ /Softmax|Segments/ || is_product(i) ? of_block[block] : 0  # users of the block
  if (is_product(i)) {
    if (role[p] == "statistics") product(i, users, 2 * latent, hidden, 4)
    if (role[p] == "decoder") product(i, users, hidden, latent, 4)
    if (role[p] == "logits") product(i, b, items, hidden, 2)
    if (role[p] == "d_weight") product(i, hidden + 1, items, b, 4, block > 1)
    if (role[p] == "d_hidden") product(i, b, hidden, items, 4)
    if (role[p] == "d_decoder") product(i, latent, hidden, users, 4)
    if (role[p] == "d_z") product(i, users, latent, hidden, 4)
    if (role[p] == "d_statistics") product(i, hidden, 2 * latent, users, 4)
    if (role[p] == "d_input") product(i, users, hidden, 2 * latent, 4)
  }
  # Ids of 2 or 4 bytes are read; columns, keys and users are written.
  if (k == "GatherRows") need(i, entries * (items > 65536 ? 16 : 14))
  if (k == "EncodeUser") need(i, 4 * entries + 6 * users * hidden, 0, 2 * keep * entries * hidden)
  if (k == "AddBiasAndSample") need(i, 22 * users * latent)  # statistics read and written; z, also in bf16
  if (k == "AddBias") need(i, 10 * users * hidden)
  if (k == "SoftmaxOfSegments") need(i, 2 * b * items)
  else if (k ~ /Softmax|GradientOfSegments/) need(i, 4 * b * items)
  # Adam: gradient read; weights and two moments read and written; a copy in bf16 written.
  if (k == "UpdateBeside") need(i, 30 * items * (hidden + 1))
  if (k == "Update") need(i, 30 * (3 * hidden * latent + 2 * latent + 2 * hidden))
  if (k ~ /^LatentBackward/) need(i, 20 * users * latent)
  # The gradient before the activation is written in bf16 and, if the input table reads it in fp32, also so.
  if (k == "ActivationBackward") need(i, after_latent ? 12 * users * latent : (encodes && !half ? 14 : 10) * users * hidden)
  if (table == i) need(i, 26 * items * hidden, 0, (half ? 2 : 4) * keep * entries * hidden)
}

END {
  if (!first) exit 1
  for (i = first; i <= last; ++i) {
    k = kernel(i)
    if (k ~ /Softmax/) { of_block[++blocks] = grid[i]; all += grid[i] }
    products += is_product(i)
    total += us[i]
    if (stream[i] != stream[first]) beside += us[i]
  }
  entries = users * interactions
  half = users * hidden * 4 > 16777216  # larger gradients are read in bf16 by the input table
  roles = "statistics decoder"
  for (b = 1; b <= blocks; ++b) { of_block[b] *= users / all; roles = roles " logits d_weight d_hidden" }
  known = split(roles " d_decoder d_z d_statistics d_input", role, " ") == products
  if (!known) split("", role)

  block = 1
  for (i = first; i <= last; ++i) {
    k = kernel(i)
    group[i] = i
    if (is_product(i)) {
      # Logits after a gradient of hidden units belong to the next block.
      if (role[++p] == "logits" && role[p - 1] == "d_hidden") ++block
      of_product = i
    }
    if (k ~ /^splitKreduce/ && of_product) group[i] = of_product
    # The input table: sums of gradients and updates, in any number of launches.
    if (k ~ /^(SumPart|SumItem)$/ || (k ~ /^Update[A-Z]/ && k != "UpdateBeside")) {
      if (!table) table = i
      group[i] = table
    }
    if (k ~ /^LatentBackward/) after_latent = 1
    if (group[i] == i) formula(i, p)
    label[i] = name[i] (is_product(i) && role[p] != "" ? " (" role[p] ")" : "")
    if (k == "ActivationBackward") { encodes = after_latent; after_latent = 0 }
    time[group[i]] += us[i]
    parts[group[i]] = parts[group[i]] (group[i] == i ? "" : " + ") label[i]
  }

  for (i = first; i <= last; ++i) if (group[i] == i) { if (i in bound) bounds += bound[i]; else unknown += time[i] }
  printf "%d launches, %.0f us one after the other, %.0f of them beside%s; bounds %.0f us, without a formula %.0f us%s\n",
    last - first + 1, total, beside, graph_us ? sprintf("; %.0f us as a CUDA graph", graph_us) : "", bounds, unknown,
    known ? "" : "; " products + 0 " products are not those of the model"
  printf "%12s %9s %9s %6s  %s\n", "us", "MB", "bound, us", "of it", "launch of a step with " users " users"
  for (i = first; i <= last; ++i) {
    g = group[i]
    printf "%12.1f %9.1f ", us[i], mb[i]
    if (g in bound) printf "%9.1f %6.2f", us[i] * bound[g] / time[g], bound[g] / time[g]
    else printf "%9s %6s", "-", "-"
    printf "  %s%s\n", label[i], stream[i] == stream[first] ? "" : ", beside"
  }

  # Those that lose less than a hundredth of the step would hide the others.
  if (below == "") exit
  for (;;) {
    worst = 0
    for (i in bound) {
      if (bound[i] < 0.6 * time[i] && time[i] - bound[i] >= total / 100 &&
          (!worst || time[i] - bound[i] > time[worst] - bound[worst])) worst = i
    }
    if (!worst) break
    printf "  %s: %.2f of its bound, %.1f us above it: %s\n", title, bound[worst] / time[worst], time[worst] - bound[worst],
      parts[worst] >>below
    delete bound[worst]
  }
}
