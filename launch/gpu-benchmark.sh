# shellcheck shell=bash disable=SC2154
# The parts of launch/gpu-check that measure time: speed, pytorch, million, runs, inverse and kernels. gpu-check sources this
# file and defines step, missed, row, data, number and the settings.

# value NAME FIELD FACTOR DIGITS: prints a field of the benchmark of the run NAME, multiplied by a factor.
value() { number benchmark "$2" "$1" | awk -v factor="$3" -v digits="$4" '/[0-9]/ { printf "%.*f", digits, factor * $1 }'; }

# larger A B, ratio A B: print the larger number and the ratio; empty arguments count as 0.
larger() { awk -v a="${1:-0}" -v b="${2:-0}" 'BEGIN { print (a + 0 > b + 0 ? a : b) }'; }
ratio() { awk -v a="${1:-0}" -v b="${2:-0}" 'BEGIN { if (a > 0 && b > 0) printf "%.2f", a / b; else printf "-" }'; }

# bench PART DATA PRECISION BATCH [SETTING...]: adds a row with the speed of training.
declare -A rates=()
bench() {
  local name="bench-$2-$3-$4" settings=() setting phase time phases='' rate check="$3, batch $4"
  for setting in "train.precision=$3" "train.batch_size=$4" train.epochs=100 benchmark.seconds=1.5 \
    benchmark.warm_up_seconds=0.3 benchmark.evaluate=false "name=$name" "${@:5}"; do settings+=(--set "$setting"); done
  if ! step "$name" 120 "${on_gpu[@]}" "${settings[@]}" "$work/$2.yaml" --benchmark; then
    missed "$1" "$check" "$name"
    return
  fi
  rate=$(value "$name" users_per_second 1 0)
  if [ -z "$rate" ]; then row "$1" "$check" FAILED "no results, see $name.log"; return; fi
  if [ "$1" = speed ]; then rates[$3-$4]=$(larger "$rate" "${rates[$3-$4]:-}"); fi
  for phase in input forward loss backward all_reduce optimizer; do
    time=$(value "$name" "phase_seconds.$phase" 1000 3)
    if [ -n "$time" ]; then phases="$phases${phases:+, }${phase/_/-} $time"; fi
  done
  row "$1" "$check" ok "$rate users/s, step $(value "$name" step_seconds 1000 3) ms ($phases), dense" \
    "$(value "$name" gemm_share 100 0) %, memory $(value "$name" memory_share 100 0) %," \
    "$(value "$name" peak_device_bytes 9.5367431640625e-7 0) MiB"
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

part_million() { if data million million; then bench million million bf16 4096; fi; }

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

# Times the kernels of one step. Two counters need one pass, and caches are not flushed, so kernels run as in training.
part_kernels() {
  local batch name detail
  if ! command -v ncu >/dev/null 2>&1; then row kernels 'all' 'left out' 'no ncu in PATH or CUDA_HOME'; return; fi
  data kernels ml20m || return
  for batch in 500 24576; do
    name=ncu-$batch
    if ! step "$name" 120 ncu --target-processes all --clock-control none --cache-control none --launch-skip 1000 \
      --launch-count 160 --csv --page raw --print-units base --kernel-name-base demangled \
      --metrics gpu__time_duration.sum,dram__bytes.sum --log-file "$work/logs/$name.csv" "${on_gpu[@]}" \
      --set train.precision=bf16 --set "train.batch_size=$batch" --set backend.cuda_graph=false --set train.epochs=1 \
      --set benchmark.seconds=1 --set benchmark.warm_up_seconds=0 --set benchmark.evaluate=false "$work/ml20m.yaml" \
      --benchmark; then
      missed kernels "batch $batch" "$name"
      continue
    fi
    if detail=$(awk -F '","' '
      !/^"/ { next }
      { gsub(/^"|"$/, "") }
      !name {
        for (i = 1; i <= NF; ++i) {
          if ($i == "Kernel Name") name = i
          if ($i ~ /^gpu__time_duration.*sum$/) time = i
          if ($i ~ /^dram__bytes.*sum$/) bytes = i
        }
        next
      }
      $name ~ /BeginStep/ && ++steps > 1 { exit }
      steps {
        kernel = $name
        gsub(/<unnamed>::|\(anonymous namespace\)::|[A-Za-z_0-9]+::/, "", kernel)
        sub(/.*run_body<|^void /, "", kernel)
        sub(/[<>(,].*/, "", kernel)
        gsub(/,/, "", $time); gsub(/,/, "", $bytes)
        us[kernel] += $time / 1000; total += $time / 1000; mb[kernel] += $bytes / 1e6; ++launches
      }
      END {
        if (!launches) exit 1
        printf "%d launches a step, %.0f us", launches, total
        for (n = 0; n < 10; ++n) {
          longest = ""
          for (kernel in us) if (longest == "" || us[kernel] > us[longest]) longest = kernel
          if (longest == "") break
          printf "; %s %.0f us %.0f MB", longest, us[longest], mb[longest]
          delete us[longest]
        }}' "$work/logs/$name.csv"); then
      row kernels "batch $batch" ok "$detail"
    else
      row kernels "batch $batch" FAILED "no kernel in $name.csv"
    fi
  done
}
