# shellcheck shell=bash disable=SC2154
# The part `benchmark` of launch/gpu-check, which sources this file and defines step, row, asked_for, configuration and
# the settings.

# value LOG LABEL FIELD: prints field FIELD after LABEL in the benchmark table of a log.
value() {
  awk -v label="$2" -v field="$3" '
    /^benchmark on / { table = 1 }
    { sub(/^ +/, "") }
    table && index($0, label " ") == 1 { split(substr($0, length(label) + 1), word, " "); print word[field]; exit }' "$1"
}

# benchmark_numbers LOG: prints the benchmark table in one line: speed, phases, and percentages of peak rates.
benchmark_numbers() {
  local log=$1 phase time phases=
  [ -n "$(value "$log" training 1)" ] || return 0
  for phase in input forward loss backward all-reduce optimizer; do
    time=$(value "$log" "$phase" 1)
    if [ -n "$time" ]; then phases="$phases${phases:+, }$phase $time"; fi
  done
  printf '%s users/s, epoch %s s, step %s ms (%s), dense %s %%, memory %s %%, %s MiB' "$(value "$log" training 1)" \
    "$(value "$log" epoch 1)" "$(value "$log" 'step (median)' 1)" "$phases" "$(value "$log" 'dense products' 3)" \
    "$(value "$log" 'weights and moments' 3)" "$(value "$log" 'peak GPU memory' 1)"
}

# larger A B, ratio A B: print the larger number and the ratio; empty arguments count as 0.
larger() { awk -v a="${1:-0}" -v b="${2:-0}" 'BEGIN { print (a + 0 > b + 0 ? a : b) }'; }
ratio() { awk -v a="${1:-0}" -v b="${2:-0}" 'BEGIN { if (b + 0 > 0) printf "%.2f", a / b; else printf "-" }'; }

# target_of NAME: prints the target on one H100, in users per second, if there is one.
target_of() {
  case $1 in
    bf16-500) echo 900000 ;;
    bf16-24576) echo 2000000 ;;
  esac
}

# find_baseline: sets `python` and `baseline` for the PyTorch baseline; fails, with the reason in `why`, if Python has
# no PyTorch with CUDA or no h5py.
find_baseline() {
  python=${VAECF_PYTHON:-python3}
  baseline=$root/tools/baselines/torch_multvae.py
  if [ ! -f "$baseline" ]; then
    why="no $baseline"
  elif ! command -v "$python" >/dev/null 2>&1; then
    why="no $python in PATH; set VAECF_PYTHON"
  elif ! why=$("$python" -c 'import h5py, torch, sys; sys.exit(not torch.cuda.is_available() and "PyTorch finds no GPU")' \
    2>&1); then
    why="$python: ${why##*$'\n'}; set VAECF_PYTHON to another Python"
  else
    return 0
  fi
  return 1
}

# run_theirs NAME PRECISION BATCH ARGUMENT...: sets `theirs` to the users per second of PyTorch; empty if it failed.
run_theirs() {
  theirs=
  step "$1" "$python" "$baseline" --data "$out/ml20m-size.h5" --device cuda --benchmark --precision "$2" --batch "$3" \
    --warmup 20 --steps 200 "${@:4}" || return 0
  theirs=$(sed -n 's/.*"event": "benchmark".*"users_per_second_median": \([0-9.e+]*\).*/\1/p' "$out/$1.log")
}

# benchmark_pair PRECISION BATCH: adds rows with the faster of two runs, interleaved with PyTorch if available. PyTorch
# runs with and without a CUDA graph, and its fastest run counts.
benchmark_pair() {
  local name=$1-$2 round variant rate best=0 best_log='' best_theirs=0 failure='' target detail
  for round in 1 2; do
    if step "benchmark-$name-$round" "${on_gpu[@]}" --set "train.precision=$1" --set "train.batch_size=$2" \
      --set train.epochs=20 "$out/benchmark.yaml" --benchmark; then
      rate=$(value "$out/benchmark-$name-$round.log" training 1)
      if [ "$(larger "$rate" "$best")" != "$best" ]; then best=$rate best_log=$out/benchmark-$name-$round.log; fi
    else
      failure=$why
    fi
    if [ "$against" = 1 ]; then
      for variant in auto off; do
        run_theirs "torch-$name-$variant-$round" "$1" "$2" --graph "$variant"
        best_theirs=$(larger "$theirs" "$best_theirs")
      done
    fi
  done
  if [ -n "$failure" ] || [ -z "$best_log" ]; then
    row benchmark "$1, batch $2" FAILED "${failure:-no results, see $out/benchmark-$name-1.log}"
    return
  fi
  detail=$(benchmark_numbers "$best_log")
  target=$(target_of "$name")
  if [ -n "$target" ]; then detail="$detail; $(ratio "$best" "$target") x the H100 target of $target"; fi
  row benchmark "$1, batch $2" ok "$detail"
  if [ "$name" = bf16-24576 ]; then
    row benchmark 'full ranking' ok \
      "$(value "$best_log" 'full-ranking test' 3) users in $(value "$best_log" 'full-ranking test' 6) ms; target 20 ms for 10000"
  fi
  if [ "$against" = 0 ]; then return; fi
  if [ "$(larger "$best_theirs" 0)" = 0 ]; then
    row benchmark "$1, batch $2, PyTorch" FAILED "no results, see $out/torch-$name-auto-1.log"
  else
    row benchmark "$1, batch $2, PyTorch" ok \
      "$best_theirs users/s; vaecf_dist $(ratio "$best" "$best_theirs") x as fast, target 3"
  fi
}

# Runs the settings of configs/ml20m-nvidia.yaml with validation and the last checkpoint. A checkpoint every 50 epochs,
# about 1.5 s, would measure the disk.
# benchmark_epochs PART TEXT: adds a row with the time of 400 epochs and TEXT.
benchmark_epochs() {
  local seconds
  configuration "$out/nvidia.yaml" "$out/ml20m-size.h5" 'name: ml20m-nvidia' \
    'model: {type: mult_vae, hidden: [600], latent: 200, dropout: 0.5}' \
    'train: {epochs: 400, last_batch: drop, batch_size: 24576, seed: 98765, annealing: {cap: 0.1, steps: 15000},' \
    '        optimizer: {type: adam, learning_rate: 4.0e-3, beta1: 0.9, beta2: 0.90, epsilon: 1.0e-8}}' \
    'validation: {every: 50, metrics: [ndcg@100, recall@20, recall@50], select: last}'
  if ! step ml20m-nvidia "${on_gpu[@]}" --set run.checkpoint_every=0 "$out/nvidia.yaml" --train; then
    row "$1" '400 epochs of ml20m-nvidia' FAILED "$why"
    return
  fi
  seconds=$(sed -n 's/.*"event":"end".*"epoch":400,.*"seconds":\([0-9.e+]*\).*/\1/p' \
    "$out/curve-runs/ml20m-nvidia/metrics.jsonl" 2>/dev/null) || true
  if [ -n "$seconds" ]; then
    row "$1" '400 epochs of ml20m-nvidia' ok "$seconds s, $took including startup and loading; $2"
  else
    row "$1" '400 epochs of ml20m-nvidia' FAILED "did not reach epoch 400, see $out/ml20m-nvidia.log"
  fi
}

part_benchmark() {
  local precision batch against=0
  rm -f "$out/ml20m-size.h5"
  if ! step benchmark-data "$program" synthesize "$out/ml20m-size.h5" --users 136677 --items 20108 \
      --interactions-per-user 73; then
    row benchmark 'data' FAILED "$why"
    return
  fi
  if find_baseline; then against=1; else row benchmark 'PyTorch comparison' 'left out' "$why"; fi
  configuration "$out/benchmark.yaml" "$out/ml20m-size.h5" 'name: benchmark'
  for precision in bf16 tf32 fp32; do
    if ! asked_for "benchmark:$precision"; then continue; fi
    for batch in 500 24576; do benchmark_pair "$precision" "$batch"; done
  done
  if asked_for benchmark:epochs; then benchmark_epochs benchmark 'target 25.9 s'; fi
}
