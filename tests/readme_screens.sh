#!/usr/bin/env bash
# Every ```console block of README.md, and every literal block of man/plan-tutorial.7 that begins with `$ `, is what its
# `$ command` prints. With --update, writes what it prints instead.
set -u
cd "$(dirname "$0")/.." || exit 2
run() { bash -c "$1" 2>&1; }
escape() { sed -e 's/\\/\\e/g' -e "s/^[.']/\\\\\&&/"; }  # what mdoc would take for its own
status=0
screens() {  # screens FILE BEGIN END FILTER
  local file=$1 begin=$2 end=$3 filter=$4 inside=0 fresh
  fresh=$(mktemp)
  while IFS= read -r line || [ -n "$line" ]; do
    if [ "$inside" -eq 1 ] && [ "$line" != "$end" ]; then
      case $line in '$ '*) printf '%s\n' "$line"; run "${line#'$ '}" | $filter ;; esac
      continue
    fi
    [ "$line" = "$begin" ] && inside=1
    [ "$line" = "$end" ] && inside=0
    printf '%s\n' "$line"
  done < "$file" > "$fresh"
  if [ "$update" = --update ]; then cat "$fresh" > "$file"; else diff -u "$file" "$fresh" || status=1; fi
  rm -f "$fresh"
}
update=${1:-}
screens README.md '```console' '```' cat
screens man/plan-tutorial.7 '.Bd -literal' '.Ed' escape
exit $status
