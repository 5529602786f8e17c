#!/usr/bin/env bash
# instructions.sh PLAN OLD_PLAN [MOST]: instructions that commands execute, of two programs. Exit status 1 where one takes
# more than MOST=1.05 times as many. Counts hardly depend on the machine or on what else it does; times do. Counted by
# valgrind, on one thread. A command that either program refuses is left out, and said.
set -u
export LC_ALL=C
new=${1:?usage: instructions.sh PLAN OLD_PLAN [MOST]} old=${2:?} most=${3:-1.05}
commands=(
  "list models"
  "estimate --model 405b --gpus 16384 --layout tp8,pp16,vp8"
  "explain step_time --model 8b --gpus 8"
  "--threads 1 --model 70b --gpus 64"
  "--threads 1 --model 405b --gpus 16384"
  "--threads 1 --model deepseek-v3 --gpus 2048"
)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

count() {  # count PLAN WORD...: instructions, or nothing where the program refuses
  valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null --log-file="$log" "$@" > /dev/null 2>&1
  [ $? -le 1 ] || return
  sed -nE 's/.*I +refs: +([0-9,]+)/\1/p' "$log" | tr -d ,
}

worse=0 compared=0
printf '%-60s %15s %15s  ratio\n' command now before
for words in "${commands[@]}"; do
  read -ra command <<< "$words"
  a=$(count "$new" "${command[@]}") b=$(count "$old" "${command[@]}")
  if [ -z "$a" ] || [ -z "$b" ]; then echo "left out: plan $words"; continue; fi
  compared=$((compared + 1))
  ratio=$(awk -v a="$a" -v b="$b" 'BEGIN {printf "%.3f", a / b}')
  printf '%-60s %15s %15s  %s\n' "plan $words" "$a" "$b" "$ratio"
  if awk -v r="$ratio" -v m="$most" 'BEGIN {exit !(r > m)}'; then worse=$((worse + 1)); fi
done
[ $compared -gt 0 ] || { echo "nothing could be compared"; exit 2; }
[ $worse -eq 0 ] || { echo "$worse commands take more than $most times the instructions"; exit 1; }
