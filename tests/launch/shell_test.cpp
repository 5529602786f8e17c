// What a script would run, followed without running it.
#include <doctest/doctest.h>

#include "cli/shell/shell.hpp"

namespace plan {
namespace {

/// Words of the last command, with blanks between.
std::string last(const std::string& text) {
  const Script script = follow_script(text, "x.sh");
  if (script.commands.empty()) return "";
  std::string out;
  for (const ShellWord& word : script.commands.back().words) out += (out.empty() ? "" : " ") + word.text;
  return out;
}

struct Row {
  const char* script;
  const char* words;
};
constexpr Row kRows[] = {
    {"run a b", "run a b"},
    {"run 'a b' \"c d\" e\\ f", "run a b c d e f"},
    {"A=1; run $A ${A}2 \"$A\" '$A'", "run 1 12 1 $A"},
    {"A='x  y'; run $A \"$A\"", "run x y x  y"},
    {"A=(--x 1\n --y 2 # note\n)\nrun \"${A[@]}\"", "run --x 1 --y 2"},
    {"A=(\"--x 1\"); run ${A[@]}", "run --x 1"},
    {"A=(a); A+=(b c); run ${A[@]} ${#A[@]} ${A[1]}", "run a b c 3 b"},
    {"A=x; A+=y; run $A", "run xy"},
    {"run ${B:-8} ${B-9} ${B:+no} ${C:=7} $C", "run 8 9 7 7"},
    {"B=; run ${B:-8} \"${B-9}\"", "run 8 "},
    {"N=4 G=8; run $((N*G)) $(( $N + ${G} / 2 - 1 )) $((N % 3)) $((-N))", "run 32 7 1 -4"},
    {"N=7; run $((N / -1)) $((N % -1)) $((N / -2))", "run -7 0 -3"},
    {"B=128 N=4; A=$[$B/($N*$((N / 2)))]; run $A \"$[ N + 1 ]\" $[B > N]x", "run 16 5 1x"},
    {"run a \\\n  b \\\n  c", "run a b c"},
    {"run $UNSET ${UNSET} $(date) `date`", "run $UNSET ${UNSET} $(date) `date`"},
    {"if [ 1 -eq 1 ]; then run yes; else run no; fi", "run yes"},
    {"A=fp8\nif [[ \"$A\" == \"bf16\" ]]; then\n run no\nelif [[ $A == fp* && -n $A ]]; then\n run yes\nfi", "run yes"},
    {"if [ \"$UNSET\" = x ]; then run no; else run other; fi", "run other"},
    {"for t in 2 4; do run $t; done", "run 4"},
    {"case \"x1\" in\n a) run no ;;\n x*) run yes ;;\n *) run other ;;\nesac", "run yes"},
    {"f() {\n  run \"$1\" \"${@:2}\"\n}\nf a b c", "run a b c"},
    {"f() { run yes; }\nfalse || f", "run yes"},
    {"f() { true; }\nif f; then run yes; else run no; fi", "run yes"},
    {"f() { [ $1 -gt 4 ]; }\nif f 2; then run no; elif f 8; then run yes; else run other; fi", "run yes"},
    {"f() { run yes; return 1; run no; }\nf && run no", "run yes"},
    {"f() { run yes; exit 1; }\nif f; then run no; fi\nrun no", "run yes"},
    {"bash -c 'run yes; exit; run no'", "run yes"},
    {"bash -c 'f() { exit; }; f; run no'\nrun yes", "run yes"},
    {"bash -c 'run \"$0\" \"$1\" \"${@:2}\"' a b c d", "run a b c d"},
    {"C=\"run --a 1\"; eval $C", "run --a 1"},
    {"run a > log 2>&1 < in", "run a"},
    {"cat <<EOF > f\nnot a command\nEOF\nrun a", "run a"},
    {"run a | tee log", "tee log"},
    {"[ 1 = 2 ] && run no; run yes", "run yes"},
    {"A=abc.tar.gz; run ${A%.gz} ${A%%.*} ${A#abc} ${A/abc/x} ${A^^}", "run abc.tar abc .tar.gz x.tar.gz ABC.TAR.GZ"},
    {"#SBATCH --nodes=16\nrun $SLURM_NNODES", "run 16"},
    {"#SBATCH --nodes=16 --ntasks-per-node=8 --gpus-per-node=h100:8\nrun $SLURM_NTASKS $SLURM_GPUS_ON_NODE",
     "run 128 8"},
    {"#SBATCH --gres=gpu:a100:4\nrun $SLURM_GPUS_ON_NODE $SLURM_PROCID", "run 4 0"},
    {"#SBATCH -N 4 --gpus-per-node=8\nG=$(nvidia-smi -L | wc -l)\nN=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" "
     "| "
     "wc -l)\nrun $((64 / G / N))",
     "run 2"},
    {"#SBATCH --gres=gpu:4\nrun $(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l) $(python3 -c 'import "
     "torch; "
     "print(torch.cuda.device_count())')",
     "run 4 4"},
    {"run $(nvidia-smi -L | wc -l)", "run $(nvidia-smi -L | wc -l)"},
    {"#SBATCH --gres=gpu:4\nrun $(nvidia-smi -L | grep H100 | wc -l)", "run $(nvidia-smi -L | grep H100 | wc -l)"},
    {"#SBATCH -N 2\nif [ -z $SLURM_JOB_ID ]; then sbatch \"$0\"; exit; fi\nrun yes", "run yes"},
    {"[ 1 = 2 ] && { A=no; B=no; }\nrun $A$B.", "run $A$B."},
    {"[ 1 = 2 ] || { A=1; B=2; }\nrun $A $B", "run 1 2"},
    {"[ 1 = 2 ] || { A=1; [ 1 = 1 ] && { A=3; }; B=2; } && C=5\nrun $A $B $C", "run 3 2 5"},
    {"[ 1 = 1 ] || { A=1; } && run yes", "run yes"},
    {"[[ -f $(pwd)/image ]] || { echo none; exit 1; }\nrun yes", "run yes"},
    {"[ -n \"$UNSET\" ] || exit 1\nrun yes", "run yes"},
    {"die() { echo $1; exit 2; }\n[ -z \"$UNSET\" ] && die none\nrun yes", "run yes"},
    {"T=$(cat <<EOF\n--a \"$N\" it's \\$M\nEOF\n)\nN=1; run \"$T\"", "run --a \"$N\" it's $M"},
    {"N=4; T=$(cat <<EOF\n--a $N\nEOF\n)\nrun $T", "run --a 4"},
    {"N=4; T=$(cat <<'EOF'\n--a $N\nEOF\n)\nrun \"$T\"", "run --a $N"},
    {"N=4\nread -r -d '' T <<EOF\n--a $N \\\n  --b\nEOF\nrun $T", "run --a 4 --b"},
    {"A=$((B * $(gpus) / 2)); run $A --c 1", "run $((B * $(gpus) / 2)) --c 1"},
    {"A=\"--a 1 --b $(date +%s)/x --c 2\"; set -- $A; run $A", "run --a 1 --b $(date +%s)/x --c 2"},
    {"if [[ ${1} != \"slurm\" ]]; then run yes; fi", "run yes"},
    {"if [ \"$1\" = multi ]; then run no; else run yes; fi", "run yes"},
    {"T='run yes'; echo \"$T\" > w.sh\nsrun bash w.sh", "run yes"},
    {"cat <<EOF > w.sh\nrun \\$1 \\$#\nEOF\nbash ./w.sh a b", "run a 2"},
    {"echo 'run a' > w.sh; echo 'run b' >> w.sh\nbash w.sh", "run b"},
    {"echo 'run a' > w.sh; echo 'run b' > w.sh\nsh w.sh", "run b"},
    {"i=0; while [ $i -lt 3 ]; do i=$((i + 1)); done; run $i", "run 3"},
    {"i=5; until [ $i -eq 2 ]; do i=$((i - 1)); done; run $i", "run 2"},
    {"for i in 1 2 3; do if [ $i = 2 ]; then break; fi; A=$i; done; run $A $i", "run 1 2"},
    {"for i in 1 2 3; do [ $i = 3 ] && continue; A=$i; done; run $A $i", "run 2 3"},
    {"for i in 1 2; do for j in 1 2 3; do [ $j = 2 ] && break; A+=$i$j.; done; done; run $A", "run 11.21."},
    {"while true; do A+=x; [ $A = xx ] && break; done; run $A", "run x"},  // who knows when it ends: once
    {"while kill -0 7; do A=1; done; run b", "run b"},
    {"while [ $(date) = x ]; do A=1; done; run b", "run b"},
    {"f() { while [[ $# -gt 0 ]]; do case $1 in --tp) T=$2; shift 2 ;; --x=*) X=${1#*=}; shift ;; *) shift ;; esac; "
     "done; }\nf --tp 4 y --x=7\nrun $T $X",
     "run 4 7"},
    {"f() { while true; do case \"$1\" in -a) A=$2; shift; shift;; --) shift; break;; esac; done; run $A $@; }\n"
     "f -a 1 -- b c",
     "run 1 b c"},
    {"f() { while getopts 'n:g:v' o; do case $o in n) N=$OPTARG;; g) G=$OPTARG;; v) V=1;; esac; done; "
     "shift $((OPTIND-1)); run $N $G $V $1; }\nf -n 4 -vg8 rest",
     "run 4 8 1 rest"},
    {"set -- a b; run $2 $#", "run b 2"},
    {"if true; [ 1 = 2 ]; then run no; else run yes; fi", "run yes"},
    {"if false\n  [ 1 = 1 ]\nthen run yes; fi", "run yes"},
    {"if if true; then false; fi; then run no; else run yes; fi", "run yes"},
    {"run a < in > out", "run a"},
    {"run a <in>out b", "run a b"},
    {"run a <in>/dev/null b", "run a b"},
    {"f() { for word; do A=$word; done; run $A; }\nf a b", "run b"},
};

}  // namespace

TEST_CASE("words are expanded as bash expands them") {
  for (const Row& row : kRows) {
    CAPTURE(std::string(row.script));
    CHECK(last(row.script) == std::string(row.words));
  }
}

TEST_CASE("a template's place to be filled in is one word, and takes no other away") {
  const auto filled = [](std::string text, const std::string& word) {
    for (std::size_t at = text.find('@'); at != std::string::npos; at = text.find('@', at + word.size()))
      text.replace(at, 1, word);
    return text;
  };
  for (const std::string place :
       {"<PATH>", "<PATH TO CKPT>", "<your-model_dir>", "<path/to/x.json>", "<N>/ckpt", "<Specify it, e.g. a:b>"})
    for (const std::string script : {"run @ --b 2", "run --a @ --b 2 @ c", "A=1; run --a \\\n @ \\\n --b $A",
                                     "A=(--a /data/@ --c); run ${A[0]} x", "if true; then run --dir=@; fi"}) {
      CAPTURE(place);
      CAPTURE(script);
      CHECK(last(filled(script, place)) == filled(last(script), place));  // as where any other word stands there
    }
}

TEST_CASE("loops over arguments that nobody gave are left out, and told") {
  const Script script = follow_script("TP=2\nwhile [[ $# -gt 0 ]]; do TP=$1; shift; done\nrun $TP\n", "x.sh");
  REQUIRE(script.commands.size() == 1);
  CHECK(script.commands[0].words[1].text == "2");
  REQUIRE_FALSE(script.notes.empty());
  CHECK(script.notes[0].text.find("`--args` gives them") != std::string::npos);
}

TEST_CASE("what cannot be followed behind a command does not matter to it") {
  const Script script = follow_script("while a; do b; done\nrun x\nwhile c; do d; done\n", "x.sh");
  CHECK(script.notes.size() == 2);
  CHECK(script.notes_before(0).size() == 1);
}

TEST_CASE("what an unknown value is made of stays one word") {
  const Script script = follow_script("A=$((B * $(gpus) / 2))\nrun $A --c", "x.sh");
  REQUIRE(script.commands.size() == 1);
  CHECK(script.commands[0].words.size() == 3);
}

TEST_CASE("every word remembers the line that it was written on") {
  const Script script = follow_script("A=(\n  --x 1\n  --y 2\n)\nN=\\\n7\nrun \"${A[@]}\" $N z\n", "x.sh");
  REQUIRE(script.commands.size() == 1);
  const std::vector<ShellWord>& words = script.commands[0].words;
  REQUIRE(words.size() == 7);
  CHECK(words[1].line == 2);
  CHECK(words[3].line == 3);
  CHECK(words[5].line == 6);
  CHECK(words[6].line == 7);
}

TEST_CASE("exported variables and batch directives are kept") {
  const Script script =
      follow_script("#!/bin/bash\n#SBATCH -N 4 --gpus-per-node=h100:8\nexport A=1 B=2\nC=3 run x\n", "x.sh");
  REQUIRE(script.sbatch.size() == 2);
  CHECK(script.sbatch[0].name == "N");
  CHECK(script.sbatch[1].value == "h100:8");
  CHECK(script.exported.at("B").text == "2");
  CHECK(script.exported.at("B").line == 3);
  CHECK(script.commands.back().environment.at("C") == "3");
  CHECK(script.commands.back().environment.at("A") == "1");
}

TEST_CASE("env hands its variables to the program, and settings that only the machine has are told") {
  const Script script = follow_script("export A=1\nenv B=2 A=3 run x\nenv -i run y\nexport $(cat .env) C=4\n", "x.sh");
  REQUIRE(script.commands.size() == 2);
  CHECK(script.commands[0].words.front().text == "run");
  CHECK(script.commands[0].environment.at("A") == "3");
  CHECK(script.commands[0].environment.at("B") == "2");
  CHECK(script.commands[1].words.front().text == "env");
  CHECK(script.exported.at("C").text == "4");
  REQUIRE(script.notes.size() == 1);
  CHECK(script.notes[0].text.find("$(cat .env)") != std::string::npos);
}

TEST_CASE("nothing hangs or grows without end") {
  std::string bomb = "A=xxxxxxxxxx\n";
  for (int i = 0; i < 40; ++i) bomb += "A=$A$A$A$A\n";
  const Script stopped = follow_script(bomb + "run $A\nrun $A", "x.sh");
  CHECK(stopped.commands.size() <= 1);
  REQUIRE_FALSE(stopped.notes.empty());
  CHECK(stopped.notes.back().text.find("does too much to be followed") != std::string::npos);
  CHECK(follow_script("f() { f; }\nf", "x.sh").commands.empty());
  const Script called = follow_script("torchrun pretrain_gpt.py\nf() { run x; f 1; f 2; }\nf", "x.sh");
  REQUIRE(called.notes_before(0).size() == 1);
  CHECK(called.notes_before(0).front().text.find("does too much to be followed") != std::string::npos);
  CHECK(follow_script("A=B+B B=C+C C=D+D D=A+A; run $((A))", "x.sh").commands.size() == 1);
  CHECK(follow_script("run " + std::string(100000, '('), "x.sh").commands.size() <= 2);
  CHECK(follow_script(std::string(3000, '$') + "{" + std::string(3000, '{'), "x.sh").commands.size() <= 1);
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += "${A:-";
  (void)follow_script("run " + deep, "x.sh");
  CHECK_FALSE(follow_script("while true; do run x; done", "x.sh").notes.empty());
}

}  // namespace plan
