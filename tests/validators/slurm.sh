#!/usr/bin/env bash
# slurm.sh SCRIPT...: asks a real slurmctld, with fake nodes of its own, whether it would take emitted batch scripts
# (sbatch --test-only), and whether it refuses what it must. Exit status 3: Slurm or munge is not installed.
set -u
for program in slurmctld sbatch munged mungekey; do
  command -v "$program" > /dev/null || { echo "skipped: sbatch --test-only: no $program (slurm-wlm, munge)"; exit 3; }
done
work=$(mktemp -d)
chmod 755 "$work"
stop() {
  [ -z "${controller:-}" ] || kill "$controller" 2> /dev/null
  [ ! -e "$work/munged.pid" ] || kill "$(cat "$work/munged.pid")" 2> /dev/null
  wait 2> /dev/null
  rm -rf "$work"
}
trap stop EXIT
mkdir "$work/state"
mungekey --create --keyfile="$work/key" && chmod 600 "$work/key"
munged --force --socket="$work/munge" --key-file="$work/key" --pid-file="$work/munged.pid" --log-file="$work/munged.log" \
  --seed-file="$work/seed" || { cat "$work/munged.log"; exit 2; }
port=$((20000 + $$ % 20000))
host=$(hostname -s)
cat > "$work/slurm.conf" <<CONF
ClusterName=plan
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$work/munge
CredType=cred/munge
StateSaveLocation=$work/state
SlurmctldPidFile=$work/slurmctld.pid
SlurmdSpoolDir=$work/spool
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
ProctrackType=proctrack/pgid
TaskPlugin=task/none
ReturnToService=2
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=3600
TreeWidth=65000
NodeName=fake[1-2048] CPUs=64 RealMemory=1000000 Gres=gpu:8 State=CLOUD
PartitionName=all Nodes=fake[1-2048] Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$work/slurm.conf
slurmctld -c -D -f "$work/slurm.conf" > "$work/slurmctld.log" 2>&1 &
controller=$!
for _ in $(seq 40); do sinfo -h > /dev/null 2>&1 && break; sleep 0.5; done
sinfo -h > /dev/null 2>&1 || { tail -n 5 "$work/slurmctld.log"; exit 2; }
failed=0 taken=0
for script in "$@"; do
  if sbatch --test-only "$script" > "$work/out" 2>&1; then taken=$((taken + 1)); else
    echo "$script: $(tail -n 1 "$work/out")"
    failed=1
  fi
done
for change in 's/--nodes=.*/--nodes=4096/' 's/--gpus-per-node=.*/--gpus-per-node=16/' 's/--exclusive/--exclusivity/'; do
  [ $# -gt 0 ] || break
  sed "$change" "$1" > "$work/changed.sbatch"
  if sbatch --test-only "$work/changed.sbatch" > /dev/null 2>&1; then
    echo "slurmctld takes a script changed by $change"
    failed=1
  fi
done
echo "slurmctld: $taken of $# batch scripts would run"
exit $failed
