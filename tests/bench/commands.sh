#!/usr/bin/env bash
# Times whole commands: wall and CPU milliseconds (the best of RUNS=5 runs each), peak memory where GNU time is installed.
#   tests/bench/commands.sh build/plan            one binary
#   tests/bench/commands.sh build/plan old/plan   two, run by turns; "ratio" is CPU time against the second (below 1: faster)
# Prints a Markdown table. Informational: it fails on no time, and a command that one binary refuses is left out.
set -u
export LC_ALL=C
new=${1:?usage: commands.sh PLAN [OTHER_PLAN]} old=${2:-} runs=${RUNS:-5}

commands=(
  "--version"
  "list models"
  "list gpus"
  "estimate --model 405b --gpus 16384 --layout tp8,pp16,vp8"
  "explain step_time --model 8b --gpus 8"
  "--model 70b --gpus 64"
  "--model 405b --gpus 1024"
  "--model 405b --gpus 16384"
  "--model 405b --gpus 65536"
  "--model deepseek-v3 --gpus 2048"
  "--model kimi-k2 --gpus 4096"
)

once() {  # once PLAN COMMAND...: "wall cpu" in ms
  local TIMEFORMAT='%3R %3U %3S'
  { time "$@" > /dev/null 2>&1; } 2>&1 | awk '{printf "%.0f %.0f\n", 1000 * $1, 1000 * ($2 + $3)}'
}

least() { awk '{if (NR == 1 || $1 < wall) wall = $1; if (NR == 1 || $2 < cpu) cpu = $2} END {print wall, cpu}'; }

peak() {  # MiB
  if [ -x /usr/bin/time ]; then /usr/bin/time -f %M -o /dev/stdout "$@" 2> /dev/null | tail -1 | awk '{printf "%.0f", $1 / 1024}'
  else printf '-'; fi
}

works() { "$@" > /dev/null 2>&1; [ $? -le 1 ]; }

if [ -n "$old" ]; then
  echo "| command | wall ms | CPU ms | peak MiB | other CPU ms | ratio |"
  echo "|---|--:|--:|--:|--:|--:|"
else
  echo "| command | wall ms | CPU ms | peak MiB |"
  echo "|---|--:|--:|--:|"
fi
for words in "${commands[@]}"; do
  read -ra command <<< "$words"
  works "$new" "${command[@]}" || continue
  here='' there=''
  for _ in $(seq "$runs"); do
    here+="$(once "$new" "${command[@]}")"$'\n'
    if [ -n "$old" ]; then there+="$(once "$old" "${command[@]}")"$'\n'; fi
  done
  read -r wall cpu <<< "$(printf '%s' "$here" | least)"
  line="| \`plan $words\` | $wall | $cpu | $(peak "$new" "${command[@]}") |"
  if [ -n "$old" ]; then
    if works "$old" "${command[@]}"; then
      read -r _ before <<< "$(printf '%s' "$there" | least)"
      line+=" $before | $(awk -v a="$cpu" -v b="$before" 'BEGIN {printf "%.2f", (a + 0.5) / (b + 0.5)}') |"
    else
      line+=" - | - |"
    fi
  fi
  echo "$line"
done
exit 0
