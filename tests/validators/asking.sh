# Sourced by run.sh and megatron.sh: samples of emitted files, and a driver that is asked about them. Wants $here, $work,
# $samples and $seed, sets $failed.

emit() {  # FORMAT FRAMEWORK [LAUNCHER [RELEASE]]: chance's plans, and the best of a few models, as far as any runs
  local into=$work/$1${3:+-$3}${4:+-$4} row model gpus depth folder chosen
  local flags=(${4:+--megatron-version "$4"})
  build/tests/frameworks/emit_samples "$1" "$samples" "$seed" "$into" ${3:+"$3"} ${4:+"$4"} || exit 2
  for row in 8b:8:32 8b:64:32 70b:64:80 70b:512:80 405b:512:126 ${BEST:-}; do
    IFS=: read -r model gpus depth <<< "$row"
    folder=$into-best/$model-$gpus
    build/plan emit "$1" --model "$model" --gpus "$gpus" ${3:+--launcher "$3"} "${flags[@]}" -o "$folder" --json \
      > "$work/emitted.json" 2> "$work/error" || {
      # No answer is one too: nothing fits, or the tool has no key for what the best layout of its framework needs.
      if grep -qE 'no layout fits|has no key for' "$work/error"; then
        echo "$1: $model on $gpus GPUs: $(head -n 1 "$work/error")"
      else
        cat "$work/error"
        failed=1
      fi
      rm -rf "$folder"
      continue
    }
    # Where the tool has no key for the best layout it is the next best that was written. What the search left to the
    # host is no part of a layout: it is among the switches.
    mapfile -t chosen < <(python3 -c 'import json, shlex, sys
written = json.load(sys.stdin)
print("--layout", written["layout"], *[word for flag in written.get("switches", []) for word in shlex.split(flag)], sep="\n")' \
      < "$work/emitted.json")
    build/plan estimate --model "$model" --gpus "$gpus" --framework "$2" "${flags[@]}" "${chosen[@]}" --json \
      > "$work/plan.json" && python3 $here/from_plan.py "$work/plan.json" "$depth" "$folder/expect.json" || {
      echo "$1: $model on $gpus GPUs: the estimate of what was written says no: ${chosen[*]}"
      failed=1
    }
  done
  mkdir -p "$into-best"
}

ask() {  # PYTHON DRIVER SAMPLES: every file accepted, and a changed plan noticed
  timeout "${ASK_SECONDS:-400}" "$1" "$here/$2" "$work/$3" "$work/$3-best" > "$work/log" 2> "$work/err" ||
    { cat "$work/log"; tail -n 5 "$work/err"; failed=1; return; }
  tail -n 1 "$work/log"
  rm -rf "$work/changed" && mkdir "$work/changed" && cp -r "$work/$3/0000" "$work/changed/"
  sed -i -E 's/"gpus": ([0-9]+)/"gpus": 3\1/; s/"(micro_batch|global_batch)": ([0-9]+)/"\1": 3\2/' "$work/changed/0000/expect.json"
  if timeout "${ASK_SECONDS:-200}" "$1" "$here/$2" "$work/changed" > /dev/null 2>&1; then
    echo "$2 does not notice a changed plan"
    failed=1
  fi
}
