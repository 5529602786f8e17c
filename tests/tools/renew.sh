#!/usr/bin/env bash
# renew.sh golden|errors|screens [BUILD]: the only way to renew what tests compare with. It rewrites the files from what
# the program prints now, prints the difference, and asks whether to keep it: yes keeps the files for a commit, anything
# else puts them back. A table of errors whose figures grow is named line by line.
#   golden   tests/golden                        what command lines print
#            tests/launch/recorded               what launch files are read as, what is written into them
#   errors   tests/published/validation_table.txt   errors of predictions, by suite
#   screens  README.md and man/plan-tutorial.7   what their commands print
set -eu
cd "$(dirname "$0")/../.."
what=${1:?usage: renew.sh golden|errors|screens [BUILD]}
build=$(realpath "${2:-build}")
table=tests/published/validation_table.txt
case $what in
  golden) files=(tests/golden tests/launch/recorded) ;;
  errors) files=("$table") ;;
  screens) files=(README.md man/plan-tutorial.7) ;;
  *) echo "renew.sh: no such thing as $what" >&2; exit 2 ;;
esac
git diff --quiet -- "${files[@]}" || { echo "renew.sh: ${files[*]} differ from the last commit already" >&2; exit 2; }

case $what in
  golden)
    PLAN_UPDATE_GOLDEN=1 "$build/tests/cli/test_cli" -tc=golden > /dev/null || true
    PLAN_UPDATE_GOLDEN=1 "$build/tests/launch/test_launch" -tc="*as recorded" > /dev/null || true ;;
  errors) PLAN_UPDATE_GOLDEN=1 "$build/tests/cli/test_cli" -tc="no suite's error grows*" > /dev/null || true ;;
  screens) PATH="$build:$PATH" bash tests/readme_screens.sh --update ;;
esac
if git diff --quiet -- "${files[@]}"; then echo "nothing has changed"; exit 0; fi

if [ "$what" = errors ]; then
  echo "suite quantity: runs, median and p90 in percent, before -> after (+ is worse)"
  join -a 1 -a 2 -e - -o 0,1.2,1.3,1.4,2.2,2.3,2.4 <(git show "HEAD:$table" | sed 1d | sed 's/ /:/' | sort) \
    <(sed 1d "$table" | sed 's/ /:/' | sort) |
    awk '$2 != $5 || $3 != $6 || $4 != $7 {
      worse = ($6 > $3 + 0.01 || $7 > $4 + 0.01 || $5 < $2) ? "+" : " "
      printf "%s %-40s %s -> %s   %s -> %s   %s -> %s\n", worse, $1, $2, $5, $3, $6, $4, $7 }'
else
  git --no-pager diff --stat -- "${files[@]}"
  git --no-pager diff -- "${files[@]}"
fi
read -r -p "keep it? [yes/no] " answer || true
if [ "$answer" = yes ]; then exit 0; fi
git checkout -q -- "${files[@]}"
echo "put back"
exit 1
