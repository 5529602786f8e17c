// What is on PATH in the place of launchers while a command is captured: one script under many names. It writes
// down the words and the environment that it was called with and starts nothing, but for launchers that start a script
// of the user's own (sbatch, srun, mpirun, containers): their script runs, so that what it would start is seen.
// Tested by tests/launch/capture_test.cpp.
#include "cli/launch/capture/stand_in.hpp"

namespace plan {

// $PLAN_CAPTURE is the scratch folder, $PLAN_CAPTURE_PATH the PATH without stand-ins.
const std::string_view kStandIn = R"sh(#!/bin/bash
name=${0##*/}

record() {
  n=1
  while ! mkdir "$PLAN_CAPTURE/calls/$n" 2>/dev/null; do
    n=$((n + 1))
    [ "$n" -gt 2000 ] && exit 1
  done
  printf '%s\0' "$@" >"$PLAN_CAPTURE/calls/$n/words"
  env -0 >"$PLAN_CAPTURE/calls/$n/environment"
  pwd >"$PLAN_CAPTURE/calls/$n/folder"
  printf '%s\n' "$PLAN_CAPTURE_SRUN" >"$PLAN_CAPTURE/calls/$n/launcher"
  case $1 in # these start a process for each GPU themselves
    torchrun* | deepspeed | accelerate*) ;;
    *) printf '%s\n' "$PLAN_CAPTURE_MPI" >>"$PLAN_CAPTURE/calls/$n/launcher" ;;
  esac
  if [ -n "$PLAN_CAPTURE_RESOLVE" ]; then
    PATH=$PLAN_CAPTURE_PATH python3 "$PLAN_CAPTURE/resolve.py" "$PLAN_CAPTURE/calls/$n/resolved" "$@" \
      >>"$PLAN_CAPTURE/notes" 2>/dev/null
  fi
}

note() { printf '%s\n' "$*" >>"$PLAN_CAPTURE/notes"; }
state() {
  if [ "$name" = srun ]; then
    PLAN_CAPTURE_SRUN="$PLAN_CAPTURE_SRUN
$*"
    export PLAN_CAPTURE_SRUN
  else printf '%s\n' "$*" >>"$PLAN_CAPTURE/slurm"; fi
}

# Reads options up to the command: `taken` is how many words they are. $1 is what keeps an option and its value, $2 the
# options without a value, $3 those with two.
options() {
  keep=$1 plain=$2 double=$3 taken=0
  shift 3
  while [ $# -gt 0 ]; do
    case $1 in
      --) taken=$((taken + 1)); return ;;
      --*=*) "$keep" "${1%%=*}" "${1#*=}"; count=1 ;;
      -*)
        case " $plain " in *" $1 "*) count=1 ;; *)
          case " $double " in *" $1 "*) count=3 ;; *)
            count=2
            case $1 in
              --*) "$keep" "$1" "$2" ;;
              -[A-Za-z]?*) if [ "$joined" = 1 ]; then
                  rest=${1#??}; "$keep" "${1%"$rest"}" "$rest"; count=1
                else "$keep" "$1" "$2"; fi ;;
              *) "$keep" "$1" "$2" ;;
            esac ;;
          esac ;;
        esac ;;
      *) return ;;
    esac
    [ $count -gt $# ] && count=$#
    shift $count
    taken=$((taken + count))
  done
}

keep_slurm() {
  case $1 in
    -N | --nodes)
      nodes=${2%%-*}; state "--nodes=$nodes"
      SLURM_NNODES=$nodes SLURM_JOB_NUM_NODES=$nodes; export SLURM_NNODES SLURM_JOB_NUM_NODES ;;
    -n | --ntasks) state "--ntasks=$2"; SLURM_NTASKS=$2 SLURM_NPROCS=$2; export SLURM_NTASKS SLURM_NPROCS ;;
    --ntasks-per-node) state "--ntasks-per-node=$2"; SLURM_NTASKS_PER_NODE=$2; export SLURM_NTASKS_PER_NODE ;;
    --gpus-per-node | --gres)
      state "$1=$2"
      case $2 in
        gpu* | [0-9]* | *:[0-9]*) SLURM_GPUS_ON_NODE=${2##*:} SLURM_GPUS_PER_NODE=${2##*:}
          export SLURM_GPUS_ON_NODE SLURM_GPUS_PER_NODE ;;
      esac ;;
    -G | --gpus) state "--gpus=$2" ;;
    -c | --cpus-per-task) SLURM_CPUS_PER_TASK=$2; export SLURM_CPUS_PER_TASK ;;
    -J | --job-name) SLURM_JOB_NAME=$2; export SLURM_JOB_NAME ;;
  esac
}
keep_mpi() {
  case $1 in
    -np | -n | --np) ranks=$2 ;;
    -N | -npernode | -ppn | --npernode) each=$2 ;;
    --map-by) case $2 in ppr:*:node) each=${2#ppr:} each=${each%:node} ;; esac ;;
    -x) case $2 in [A-Za-z_]*=*) export "$2" ;; esac ;;
  esac
}
# A process for each GPU: nodes of eight where nothing says how many share one.
state_mpi() {
  case $ranks$each in '' | *[!0-9]*) return ;; esac
  [ -n "$ranks" ] || return
  [ -n "$each" ] || { each=$ranks; [ $((ranks % 8)) -eq 0 ] && each=8; }
  PLAN_CAPTURE_MPI="--nodes=$((ranks / each))
--gpus-per-node=$each"
  export PLAN_CAPTURE_MPI
}
keep_none() { :; }

slurm_plain="--exclusive --label -l --unbuffered -u --verbose -v --no-kill -k --overlap --overcommit -O --pty \
--kill-on-bad-exit -K --quiet -Q --wait -W --oversubscribe -s --requeue --no-requeue --parsable --disable-status -X \
--container-mount-home --no-container-mount-home --container-remap-root --no-container-remap-root --container-writable \
--container-readonly --no-container-entrypoint --contiguous --spread-job --hold -H --preserve-env -E --propagate --use-min-nodes"
mpi_plain="--allow-run-as-root -allow-run-as-root --oversubscribe -oversubscribe --report-bindings -report-bindings -v \
--verbose --tag-output -tag-output --quiet -q --display-map -display-map --display-allocation --nooversubscribe --bynode"

# The words of a script or command that a launcher starts: `srun CMD`, `sbatch FILE`.
go_on() {
  [ $# -eq 0 ] && exit 0
  exec "$@"
}

# From the first word that starts something known: `docker run ... IMAGE bash -c '...'`, `nsys profile ... torchrun ...`.
seek() {
  while [ $# -gt 0 ]; do
    case ${1##*/} in
      bash | sh | env) exec "$@" ;;
      *.py) exec python3 "$@" ;;
      *) if [ -e "$PLAN_CAPTURE/bin/${1##*/}" ]; then first=${1##*/}; shift; exec "$first" "$@"; fi ;;
    esac
    shift
  done
  exit 0
}

# Code on the command line computes a word of it; it runs without site packages, so that no framework can be imported.
helper() {
  if PATH=$PLAN_CAPTURE_PATH python3 -I -S "$@"; then exit 0; fi
  status=$?
  note "\`$name $1 ...\` failed without site packages: what the script takes from it is empty"
  exit $status
}

case $name in
  sbatch | salloc)
    joined=1
    options keep_none "$slurm_plain" "" "$@"
    before=$taken
    eval "script=\${$((before + 1)):-}"
    if [ -n "$script" ] && [ -f "$script" ]; then
      header=$(sed -n 's/^#SBATCH[[:space:]]*//p' "$script" | sed 's/[[:space:]]#.*//')
      set -f
      # shellcheck disable=SC2086 # words of the header
      [ -n "$header" ] && options keep_slurm "$slurm_plain" "" $header
      set +f
    fi
    options keep_slurm "$slurm_plain" "" "$@" # after the header: the command line wins
    shift "$before"
    : "${SLURM_NNODES:=1}" "${SLURM_JOB_NUM_NODES:=$SLURM_NNODES}"
    SLURM_JOB_ID=1 SLURM_JOBID=1 SLURM_PROCID=0 SLURM_NODEID=0 SLURM_LOCALID=0 SLURM_SUBMIT_DIR=$(pwd)
    SLURM_JOB_NODELIST="node-[0-$((SLURM_NNODES - 1))]" SLURM_NODELIST="node-[0-$((SLURM_NNODES - 1))]"
    export SLURM_NNODES SLURM_JOB_NUM_NODES SLURM_JOB_ID SLURM_JOBID SLURM_PROCID SLURM_NODEID SLURM_LOCALID \
      SLURM_SUBMIT_DIR SLURM_JOB_NODELIST SLURM_NODELIST
    if [ $# -eq 0 ]; then exit 0; fi
    if [ -f "$1" ]; then bash "$@" >&2; else "$@" >&2; fi
    status=$?
    [ "$name" = sbatch ] && echo "Submitted batch job 1"
    exit $status ;;
  srun)
    joined=1
    options keep_slurm "$slurm_plain" "" "$@"; shift $taken
    : "${SLURM_PROCID:=0}" "${SLURM_NODEID:=0}" "${SLURM_LOCALID:=0}" "${SLURM_NNODES:=1}" "${SLURM_JOB_ID:=1}"
    export SLURM_PROCID SLURM_NODEID SLURM_LOCALID SLURM_NNODES SLURM_JOB_ID
    go_on "$@" ;;
  mpirun | mpiexec | orterun | horovodrun | mpirun.*)
    options keep_mpi "$mpi_plain" "-mca --mca -gmca --gmca" "$@"; shift $taken
    state_mpi
    OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_RANK=0; export OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_LOCAL_RANK
    go_on "$@" ;;
  singularity | apptainer | docker | podman | enroot | nsys | ncu | rocprof | numactl | taskset | sudo | uv | poetry | pdm | pixi | \
    conda | mamba | micromamba | jsrun | aprun | flux | stdbuf | xvfb-run)
    seek "$@" ;;
  ray)
    if [ "$1" = job ]; then
      shift
      while [ $# -gt 0 ] && [ "$1" != -- ]; do shift; done
      [ $# -gt 0 ] && shift
      go_on "$@"
    fi
    record "$name" "$@" ;;
  scontrol)
    if [ "$1" = show ] && [ "${2#hostname}" != "$2" ]; then
      i=0
      while [ $i -lt "${SLURM_NNODES:-1}" ]; do echo "node-$i"; i=$((i + 1)); done
    fi ;;
  python | python[0-9]*)
    case $1 in
      -c | - | -V | --version) helper "$@" ;;
      -m) case $2 in json.tool | base64 | sysconfig | platform) helper "$@" ;; *) record "$name" "$@" ;; esac ;;
      "") helper - ;;
      *) record "$name" "$@" ;;
    esac ;;
  @RECORDED@) record "$name" "$@" ;;
  *) ;; # everything else does nothing: it would change files, reach the network or end processes
esac
exit 0
)sh";

const std::vector<std::string_view>& recorded_programs() {
  static const std::vector<std::string_view> kNames = {"torchrun",
                                                       "torchrun-hpc",
                                                       "deepspeed",
                                                       "ds",
                                                       "accelerate",
                                                       "accelerate-launch",
                                                       "megatron",
                                                       "swift",
                                                       "llamafactory-cli",
                                                       "lmf",
                                                       "axolotl",
                                                       "composer",
                                                       "tune",
                                                       "litgpt",
                                                       "nemo",
                                                       "nemorun",
                                                       "primus-cli",
                                                       "msrun",
                                                       "colossalai",
                                                       "torchx",
                                                       "xtuner",
                                                       "fairseq-train",
                                                       "trl",
                                                       "autotrain",
                                                       "oumi",
                                                       "paddle",
                                                       "launch.py",
                                                       "sky",
                                                       "torchprime",
                                                       "ray"};
  return kNames;
}

const std::vector<std::string_view>& followed_programs() {
  static const std::vector<std::string_view> kNames = {
      "sbatch", "salloc", "srun",     "mpirun",   "mpiexec", "orterun", "horovodrun", "singularity", "apptainer",
      "docker", "podman", "enroot",   "nsys",     "ncu",     "rocprof", "numactl",    "taskset",     "sudo",
      "uv",     "poetry", "pdm",      "pixi",     "conda",   "mamba",   "micromamba", "jsrun",       "aprun",
      "flux",   "stdbuf", "xvfb-run", "scontrol", "python",  "python3"};
  return kNames;
}

const std::vector<std::string_view>& inert_programs() {
  static const std::vector<std::string_view> kNames = {"rm",
                                                       "rmdir",
                                                       "kill",
                                                       "pkill",
                                                       "killall",
                                                       "sleep",
                                                       "ssh",
                                                       "scp",
                                                       "rsync",
                                                       "pdsh",
                                                       "pip",
                                                       "pip3",
                                                       "git",
                                                       "wget",
                                                       "curl",
                                                       "apt",
                                                       "apt-get",
                                                       "yum",
                                                       "dnf",
                                                       "module",
                                                       "ml",
                                                       "modprobe",
                                                       "mount",
                                                       "umount",
                                                       "systemctl",
                                                       "reboot",
                                                       "shutdown",
                                                       "hf",
                                                       "huggingface-cli",
                                                       "wandb",
                                                       "aws",
                                                       "s5cmd",
                                                       "gsutil",
                                                       "gcloud",
                                                       "az",
                                                       "kubectl",
                                                       "squeue",
                                                       "scancel",
                                                       "sinfo",
                                                       "sacct",
                                                       "make",
                                                       "cmake",
                                                       "ninja",
                                                       "nvcc",
                                                       "chown",
                                                       "dd",
                                                       "mkfs",
                                                       "tensorboard",
                                                       "jupyter",
                                                       "vllm",
                                                       "sglang"};
  return kNames;
}

}  // namespace plan
