#!/usr/bin/env bash
# Every ```console block of README.md is what its `$ command` prints. With --update, writes what it prints instead.
set -u
cd "$(dirname "$0")/.." || exit 2
readme=README.md
fresh=$(mktemp)
run() { bash -c "$1" 2>&1; }
inside=0
while IFS= read -r line || [ -n "$line" ]; do
  if [ "$inside" -eq 1 ] && [ "$line" != '```' ]; then
    case $line in '$ '*) printf '%s\n' "$line"; run "${line#'$ '}" ;; esac
    continue
  fi
  [ "$line" = '```console' ] && inside=1
  [ "$line" = '```' ] && inside=0
  printf '%s\n' "$line"
done < "$readme" > "$fresh"
status=0
if [ "${1:-}" = --update ]; then cat "$fresh" > "$readme"; else diff -u "$readme" "$fresh" || status=1; fi
rm -f "$fresh"
exit $status
