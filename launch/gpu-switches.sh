# shellcheck shell=bash disable=SC2154
# The part `speed` of launch/gpu-check, which sources this file after gpu-benchmark.sh: measures the switches between old
# and new GPU code (VAECF_TUNE, see src/device/cuda/tune.hpp) and prints predicted beside measured gains. Temporary:
# delete it with the switches.

old=ones=0,chunk=0,slice=1536,softmax=0,groups=1,fuse=0,side=0,diet=0,window=0,latent=0,exp=0
all=ones=1,chunk=2560,slice=12288,softmax=1,groups=4,fuse=1,side=1,diet=1,window=1,latent=1,exp=0

# predictions: prints changes to `old` and the gains that are predicted for them: microseconds per step at batch 500 and at
# 24576, milliseconds at 1,000,000 items and batch 4096. `-`: no prediction; `.`: not measured at this size. `default`
# and `all` replace `old`; their predictions are 80 to 100 % of the sum.
predictions() { cat <<'TABLE'
ones=1 12 500 .
chunk=2560 . 350 .
chunk=24576 . - .
softmax=1 5 220 .
groups=4 59 60..100 .
groups=8 - - .
fuse=1 46 - .
side=1 45..60 - .
fuse=1,side=1 75..115 60..90 1.5
diet=1 45 50 .
window=1 50 25 .
latent=1 8 90 .
exp=1 0 0 .
chunk=2560,slice=12288 . . 17
chunk=2560,slice=12288,softmax=1 . . 26
chunk=2560,slice=12288,softmax=1,exp=1 . . 28.8
default 103..129 1016..1310 24..30
all 225..282 1140..1425 25..31
TABLE
}

# timed CHECK COMMAND...: runs a command whose steps end within ten minutes of the start of this part. Adds a row with
# `detail` if the command sets it, or with `why` if it fails.
timed() {
  local check=$1 limit=$limit left=$((part_begin + 590 - SECONDS))
  if [ "$left" -lt 15 ]; then row speed "$check" 'left out' 'the ten minutes of this part are over'; return; fi
  if [ "$limit" -gt "$left" ]; then limit=$left; fi
  detail=
  if ! "${@:2}"; then row speed "$check" FAILED "$why"; elif [ -n "$detail" ]; then row speed "$check" ok "$detail"; fi
}

# speed_data NAME USERS ITEMS ARGUMENT...: makes synthetic data NAME.h5, unless it exists, and a configuration NAME.yaml.
speed_data() {
  configuration "$out/$1.yaml" "$out/$1.h5" 'name: speed'
  if [ -f "$out/$1.h5" ] ||
    step "speed-data-$1" "$program" synthesize "$out/$1.h5" --users "$2" --items "$3" "${@:4}"; then return 0; fi
  row speed "data, $1" FAILED "$why"
  return 1
}
ml20m_size() { speed_data ml20m-size 136677 20108 --interactions-per-user 73; }

# tuned TUNE: prints VAECF_TUNE of a line of predictions.
tuned() {
  case $1 in
    default) ;;
    old) echo "$old" ;;
    all) echo "$all" ;;
    *) echo "$old,$1" ;;
  esac
}

# measure NAME TUNE BATCH DATA SETTING...: runs a benchmark; sets `rate` to its users per second and `log` to its log.
measure() {
  local settings=() setting
  for setting in "${@:5}"; do settings+=(--set "$setting"); done
  rate=
  log=$out/speed-$1.log
  step "speed-$1" env "VAECF_TUNE=$(tuned "$2")" "${on_gpu[@]}" --set train.precision=bf16 --set "train.batch_size=$3" \
    --set train.epochs=40 --set benchmark.seconds=3 --set benchmark.warm_up_seconds=1 --set benchmark.evaluate=false \
    ${settings[@]+"${settings[@]}"} "$out/$4.yaml" --benchmark || return 1
  rate=$(value "$log" training 1)
  why="no results, see $log"
  [ -n "$rate" ]
}

# sweep TITLE BATCH COLUMN UNIT PER_SECOND DATA: measures `old`, the changes of this column of predictions, and `old`
# again, whose difference is the noise.
sweep() {
  local title=$1 batch=$2 column=$3 unit=$4 per_second=$5 data=$6 base='' tune predicted
  while read -r tune predicted; do
    if [ "$tune" = old ] && [ -n "$base" ]; then timed "$title, old again" gain again; else timed "$title, $tune" gain; fi
  done < <(echo 'old 0'; predictions | awk -v column="$column" '$column != "." { print $1, $column }'; echo 'old 0')
}
# gain [SUFFIX]: measures one line of a sweep.
gain() {
  measure "$data-$batch-${tune//[=,]/_}${1:+-$1}" "$tune" "$batch" "$data" || return 1
  base=${base:-$rate}
  detail=$(awk -v rate="$rate" -v base="$base" -v users="$((per_second * batch))" -v predicted="$predicted" -v unit="$unit" \
    'BEGIN {
      printf "predicted gain %s, measured %.1f %s: %.1f %s a step, %.0f users/s, %.3f x old", predicted,
        users / base - users / rate, unit, users / rate, unit, rate, rate / base
    }')
}

# Part 1: whether old and new code are correct, and each switch alone at the size of MovieLens 20M.
speed_1() {
  local tune
  for tune in default all old; do
    if [ ! -x "$bin/contract_cuda_test" ]; then row speed contract 'left out' 'no contract_cuda_test'; break; fi
    VAECF_TUNE=$(tuned "$tune") timed "contract, $tune" test_step speed "contract, $tune" "speed-contract-$tune" \
      "$bin/contract_cuda_test" \
      '--gtest_filter=*Softmax*:*Fused*:*Forward*:*Backward*:*Side*:*Update*:*Ranking*:*CudaLayers*:*CudaInputLayer*'
  done
  ml20m_size || return 0
  sweep 'batch 500' 500 2 us 1000000 ml20m-size
  sweep 'batch 24576' 24576 3 us 1000000 ml20m-size
}

# profile TUNE BATCH SKIP COUNT: times the kernels of some steps. Three counters need one pass, and caches are not
# flushed, so kernels run as in training.
profile() {
  local name=speed-ncu-$1-$2
  rm -f "$out/$name.csv"
  step "$name" env "VAECF_TUNE=$(tuned "$1")" "$ncu" --target-processes all --clock-control none --cache-control none \
    --launch-skip "$3" --launch-count "$4" --csv --page raw --print-units base --kernel-name-base demangled \
    --metrics gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum --log-file "$out/$name.csv" \
    "${on_gpu[@]}" --set train.precision=bf16 --set "train.batch_size=$2" --set backend.cuda_graph=off \
    --set train.epochs=1 --set benchmark.seconds=1 --set benchmark.warm_up_seconds=0 --set benchmark.evaluate=false \
    "$out/ml20m-size.yaml" --benchmark || return 1
  why="no kernel in $out/$name.csv"
  # Time and memory traffic of all kernels and of the longest.
  detail=$(awk -F '","' '
    !/^"/ { next }
    { gsub(/^"|"$/, "") }
    !name {
      for (i = 1; i <= NF; ++i) {
        if ($i == "Kernel Name") name = i
        if ($i ~ /^gpu__time_duration/) { time = i } else if ($i ~ /^dram__bytes_/) { bytes[++parts] = i }
      }
      next
    }
    $time ~ /^[0-9]/ {  # not the line of units
      kernel = $name
      gsub(/<unnamed>::|\(anonymous namespace\)::|[A-Za-z_0-9]+::/, "", kernel)
      sub(/.*run_body<|^void /, "", kernel)
      sub(/[<>(,].*/, "", kernel)
      gsub(/,/, "", $time)
      us[kernel] += $time / 1000; total += $time / 1000; ++launches
      for (i = 1; i <= parts; ++i) { gsub(/,/, "", $bytes[i]); mb[kernel] += $bytes[i] / 1e6 }
    }
    END {
      if (!launches) exit 1
      printf "%d launches, %.0f us", launches, total
      for (n = 0; n < 8; ++n) {
        longest = ""
        for (kernel in us) if (longest == "" || us[kernel] > us[longest]) longest = kernel
        if (longest == "") break
        printf "; %s %.0f us %.0f MB", longest, us[longest], mb[longest]
        delete us[longest]
      }}' "$out/$name.csv")
}

# Part 2: kernels, and a catalog of 1,000,000 items.
speed_2() {
  local ncu tune
  ml20m_size || return 0
  ncu=$(PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin command -v ncu) || row speed kernels 'left out' 'no ncu in PATH or CUDA_HOME'
  for tune in ${ncu:+old all}; do
    timed "kernels, batch 500, $tune" profile "$tune" 500 2500 150
    timed "kernels, batch 24576, $tune" profile "$tune" 24576 6000 400
  done
  speed_data million 40000 1000000 || return 0
  sweep '1M items' 4096 4 ms 1000 million
}

# speed_ml1m: trains configs/ml1m.yaml as it is, with the dataset of --ml1m.
speed_ml1m() {
  local events=$out/curve-runs/ml1m/metrics.jsonl
  step speed-ml1m "${on_gpu[@]}" --set name=ml1m --set "data.file=$ml1m" --set "run.directory=$out/curve-runs" \
    "$root/configs/ml1m.yaml" --train || return 1
  detail=$(awk '
    match($0, /"seconds":[0-9.e+-]*/) { seconds = substr($0, RSTART + 10, RLENGTH - 10) }
    /"event":"epoch"/ { steps += seconds }
    /"event":"validation"/ { validations += seconds }
    /"event":"checkpoint"/ { ++writes; written += seconds }
    END {
      printf "predicted 2.0..2.3 s, measured %s s, was 22.8; epochs %.2f, validations %.2f, %d checkpoints %.2f s", seconds,
        steps, validations, writes, written
    }' "$events")
}

speed_ranking() {
  measure ranking default 500 ml20m-size benchmark.evaluate=true || return 1
  detail="$(value "$log" 'full-ranking test' 3) users: predicted 2..3 ms, measured $(value "$log" 'full-ranking test' 6) ms, was 7.0"
}

speed_bf16x3() {
  local fp32
  measure fp32 default 24576 ml20m-size train.precision=fp32 || return 1
  fp32=$rate
  measure bf16x3 default 24576 ml20m-size train.precision=bf16x3 || return 1
  detail="$rate users/s, fp32 $fp32: predicted 2.9..3.3 x, measured $(ratio "$rate" "$fp32") x, target 3"
}

# speed_torch BATCH TARGET: compares the faster of `default` and `all` with the faster run of PyTorch.
speed_torch() {
  local best=0 best_theirs=0 tune variant
  for tune in default all; do
    measure "torch-$1-$tune" "$tune" "$1" ml20m-size || return 1
    best=$(larger "$rate" "$best")
  done
  for variant in auto off; do
    run_theirs "speed-torch-$1-$variant" bf16 "$1" --graph "$variant"
    best_theirs=$(larger "$theirs" "$best_theirs")
  done
  why="no results of PyTorch, see $out/speed-torch-$1-auto.log"
  detail="$best users/s, PyTorch $best_theirs: $(ratio "$best" "$best_theirs") x as fast, target $2"
  [ "$best_theirs" != 0 ]
}

# Part 3: whole runs, bf16x3, and PyTorch.
speed_3() {
  if [ -f "$ml1m" ] && [ -f "$root/configs/ml1m.yaml" ]; then
    timed 'ML-1M, 200 epochs' speed_ml1m
  else
    row speed 'ML-1M, 200 epochs' 'left out' 'requires --ml1m FILE and configs/ml1m.yaml'
  fi
  ml20m_size || return 0
  timed ranking speed_ranking
  timed '400 epochs of ml20m-nvidia' benchmark_epochs speed 'predicted 7.3..7.9 s, was 10.3'
  timed 'bf16x3, batch 24576' speed_bf16x3
  if ! find_baseline; then row speed 'PyTorch comparison' 'left out' "$why"; return; fi
  timed 'PyTorch, batch 500' speed_torch 500 4
  timed 'PyTorch, batch 2048' speed_torch 2048 4
  timed 'PyTorch, batch 24576' speed_torch 24576 3.8
}

part_speed() {
  local number part_begin detail
  for number in 1 2 3; do
    part_begin=$SECONDS
    if asked_for "speed:$number"; then "speed_$number"; fi
  done
}
