# shellcheck shell=bash disable=SC2154
# The parts of launch/gpu-check that train with data of real size: speed, losses, million, kernels, pytorch, runs and inverse.
# gpu-check sources this file and defines step, missed, row, lines, data, numbers, number and the settings.

# value NAME FIELD FACTOR DIGITS: prints a field of the benchmark of the run NAME, multiplied by a factor.
value() { number benchmark "$2" "$1" | awk -v factor="$3" -v digits="$4" '/[0-9]/ { printf "%.*f", digits, factor * $1 }'; }

# larger A B, ratio A B: print the larger number and the ratio; empty arguments count as 0.
larger() { awk -v a="${1:-0}" -v b="${2:-0}" 'BEGIN { print (a + 0 > b + 0 ? a : b) }'; }
ratio() { awk -v a="${1:-0}" -v b="${2:-0}" 'BEGIN { if (a > 0 && b > 0) printf "%.2f", a / b; else printf "-" }'; }
# spread A B: prints the difference of two positive numbers in percent.
spread() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%+.2f %%", 100 * (a / b - 1) }'; }

# bench PART DATA PRECISION BATCH [SETTING...]: adds a row with the speed of training, with the difference from an earlier run
# of the same, and below it the matrix products of the event, if any.
declare -A rates=()
bench() {
  local name="bench-$2-$3-$4" settings=() setting phase time phases='' rate check="$3, batch $4" before=${rates[$3-$4]:-}
  for setting in "train.precision=$3" "train.batch_size=$4" train.epochs=100 benchmark.seconds=1.5 \
    benchmark.warm_up_seconds=0.3 benchmark.evaluate=false "name=$name" "${@:5}"; do settings+=(--set "$setting"); done
  if ! step "$name" 120 "${on_gpu[@]}" "${settings[@]}" "$work/$2.yaml" --benchmark; then
    missed "$1" "$check" "$name"
    return
  fi
  rate=$(value "$name" users_per_second 1 0)
  if [ -z "$rate" ]; then row "$1" "$check" FAILED "no results, see $name.log"; return; fi
  rates[$3-$4]=$(larger "$rate" "$before")
  for phase in input forward loss backward all_reduce optimizer; do
    time=$(value "$name" "phase_seconds.$phase" 1000 3)
    if [ -n "$time" ]; then phases="$phases${phases:+, }${phase/_/-} $time"; fi
  done
  row "$1" "$check" ok "$rate users/s, step $(value "$name" step_seconds 1000 3) ms ($phases), dense" \
    "$(value "$name" gemm_share 100 0) %, memory $(value "$name" memory_share 100 0) %," \
    "$(value "$name" peak_device_bytes 9.5367431640625e-7 0) MiB${before:+; $(spread "$rate" "$before") from the run before}"
  number benchmark products "$name" | sed -n 's/^\["\(.*\)"\]$/  product \1/; T; s/","/\n  product /g; p' | lines
  if [ -n "$(value "$name" evaluation_users 1 0)" ]; then
    row "$1" 'full ranking' ok "$(value "$name" evaluation_users 1 0) users in $(value "$name" evaluation_seconds 1000 1) ms"
  fi
}
part_speed() {
  local batch
  data speed ml20m || return
  for batch in 24576 500 2048; do bench speed ml20m bf16 "$batch"; done
  bench speed ml20m fp32 24576
  bench speed ml20m bf16x3 24576
  # Again: the difference is the noise.
  bench speed ml20m bf16 24576
  bench speed ml20m bf16 500 benchmark.evaluate=true
}

# losses NAME PRECISION [SETTING...]: trains two epochs of million-items. The learning rate keeps hidden units from
# saturating, so that rounding hardly changes the losses.
losses() {
  local settings=() setting
  for setting in "name=$1" "data.file=$work/million.h5" "run.directory=$work/runs" "train.precision=$2" train.epochs=2 \
    train.optimizer.learning_rate=2e-3 run.checkpoint_every=never "${@:3}"; do settings+=(--set "$setting"); done
  step "$1" 120 "${on_gpu[@]}" "${settings[@]}" "$root/configs/million-items.yaml" --train
}

# losses_row CHECK NAME [EXPECTED...]: adds a row on whether the losses of the epochs are the expected ones, within 0.1, or
# fall if none are given.
losses_row() {
  local detail result=ok
  if [ -e "$work/$2.missed" ]; then missed losses "$1" "$2"; return; fi
  detail=$(numbers epoch loss "$2" | awk -v expected="${*:3}" '
    BEGIN { none = split(expected, of_epoch) == 0 }
    {
      printf "%s%.3f", NR == 1 ? "" : ", ", $1
      if (none) { if (!($1 > 0) || (NR > 1 && !($1 < before))) bad = 1 }
      else if (!($1 >= of_epoch[NR] - 0.1 && $1 <= of_epoch[NR] + 0.1)) bad = 1
      before = $1
    }
    END {
      printf " after %d epochs%s", NR, none ? ", compared with nothing" : ", expected " of_epoch[1] ", " of_epoch[2] " within 0.1"
      exit bad || NR != 2
    }') || result=FAILED
  row losses "$1" "$result" "$detail"
}

# The expected losses are those of the CPU in fp32.
part_losses() {
  local precision
  data losses million || return
  for precision in bf16 fp32 bf16x3 tf32; do losses "losses-$precision" "$precision" & done
  losses losses-seed bf16 train.seed=2 &
  wait
  for precision in bf16 fp32 bf16x3 tf32; do losses_row "$precision, a million items" "losses-$precision" 591.02 543.85; done
  losses_row 'bf16, another seed' losses-seed
}

part_million() {
  data million million || return
  bench million million bf16 4096
  bench million million bf16 4096
}

part_pytorch() {
  local python=${VAECF_PYTHON:-python3} baseline=$root/tools/baselines/torch_multvae.py why batch variant best theirs name
  data pytorch ml20m || return
  if [ ! -f "$baseline" ]; then
    why="no $baseline"
  elif ! command -v "$python" >/dev/null 2>&1; then
    why="no $python in PATH; set VAECF_PYTHON"
  elif ! why=$("$python" -c 'import h5py, torch, sys; sys.exit(not torch.cuda.is_available() and "PyTorch finds no GPU")' \
    2>&1); then
    why="$python: ${why##*$'\n'}; set VAECF_PYTHON to another Python"
  fi
  if [ -n "$why" ]; then row pytorch 'all' 'left out' "$why"; return; fi
  for batch in 500 24576 2048; do
    best=
    for variant in auto off; do
      if [ "$batch.$variant" = 24576.auto ]; then continue; fi  # at large batches the host is not the limit
      name=torch-$batch-$variant
      step "$name" 120 "$python" "$baseline" --data "$work/ml20m.h5" --device cuda --benchmark --precision bf16 \
        --batch "$batch" --warmup 10 --steps 60 --graph "$variant" || continue
      theirs=$(sed -n 's/.*"event": "benchmark".*"users_per_second_median": \([0-9.e+]*\).*/\1/p' "$work/logs/$name.log")
      best=$(larger "$theirs" "$best")
    done
    if [ "$(larger "$best" 0)" != 0 ]; then
      row pytorch "bf16, batch $batch" ok "$best users/s; vaecf_dist $(ratio "${rates[bf16-$batch]:-}" "$best") x as fast"
    elif [ -e "$work/$name.missed" ]; then
      missed pytorch "bf16, batch $batch" "$name"
    else
      row pytorch "bf16, batch $batch" FAILED "no results, see $name.log"
    fi
  done
}

# whole_run CHECK NAME CONFIG SETTING...: adds a row with the time of a training run, and its test.
whole_run() {
  local settings=() setting seconds
  for setting in "name=$2" "run.directory=$work/runs" 'evaluation.baselines=[]' "${@:4}"; do settings+=(--set "$setting"); done
  if ! step "$2" 300 "${on_gpu[@]}" "${settings[@]}" "$3"; then missed runs "$1" "$2"; return; fi
  seconds=$(number end seconds "$2")
  if [ -z "$seconds" ]; then row runs "$1" FAILED "did not reach the end, see $2.log"; return; fi
  row runs "$1" ok "$seconds s; test ndcg@100 $(number test metrics.ndcg@100.value "$2")"
}
part_runs() {
  if [ -f "$ml1m" ]; then
    whole_run 'ML-1M, 200 epochs' ml1m "$root/configs/ml1m.yaml" "data.file=$ml1m"
  else
    row runs 'ML-1M, 200 epochs' 'left out' "no dataset $ml1m; set --ml1m"
  fi
  data runs ml20m || return
  # A checkpoint every 50 epochs would measure the disk.
  whole_run '400 epochs of ml20m-nvidia' ml20m-nvidia "$root/configs/ml20m-nvidia.yaml" "data.file=$work/ml20m.h5" \
    run.checkpoint_every=never
}

part_inverse() {
  local check='EASE, 20,108 items' seconds
  data inverse ml20m || return
  if ! step ease 300 "${on_gpu[@]}" --set name=ease --set model.type=ease --set model.ease.l2=500 "$work/ml20m.yaml" --train; then
    missed inverse "$check" ease
    return
  fi
  seconds=$(number solve seconds ease)
  if [ -z "$seconds" ]; then row inverse "$check" FAILED 'no solution, see ease.log'; return; fi
  row inverse "$check" ok "solved in $seconds s; $(number solve users ease) users scored in" \
    "$(number solve evaluation_seconds ease) s"
}

# kernels DATA ITEMS INTERACTIONS BATCH CHECK: adds the launches of one step. Two counters need one pass, and caches are not
# flushed, so kernels run as in training. The launches that are skipped are mostly those of the first step, which tries
# algorithms of products.
kernels() {
  local name=ncu-$1-$4 found
  if ! step "$name" 120 ncu --target-processes all --clock-control none --cache-control none --launch-skip 1500 \
    --launch-count 160 --csv --page raw --print-units base --kernel-name-base demangled \
    --metrics gpu__time_duration.sum,dram__bytes.sum --log-file "$work/logs/$name.csv" "${on_gpu[@]}" \
    --set train.precision=bf16 --set "train.batch_size=$4" --set train.last_batch=drop --set backend.cuda_graph=false \
    --set train.epochs=100 --set benchmark.seconds=1 --set benchmark.warm_up_seconds=0 --set benchmark.evaluate=false \
    "$work/$1.yaml" --benchmark; then
    missed kernels "$5" "$name"
  elif found=$(awk -v items="$2" -v interactions="$3" -v graph_us="$(value "bench-$1-bf16-$4" step_seconds 1e6 0)" \
    -v title="$5" -v below="$work/below" -f "$root/launch/gpu-kernels.awk" "$work/logs/$name.csv"); then
    row kernels "$5" ok "${found%%$'\n'*}"
    lines <<<"${found#*$'\n'}"
  else
    row kernels "$5" FAILED "no whole step in $name.csv"
  fi
}
part_kernels() {
  if ! command -v ncu >/dev/null 2>&1; then row kernels 'all' 'left out' 'no ncu in PATH or CUDA_HOME'; return; fi
  if data kernels ml20m; then
    kernels ml20m 20108 73 500 'batch 500'
    kernels ml20m 20108 73 24576 'batch 24576'
  fi
  if data kernels million; then kernels million 1000000 49 4096 'a million items, batch 4096'; fi
}
