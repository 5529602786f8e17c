#!/usr/bin/env bash
# Starts Slurm and munge on this machine alone, runs a command (the test of `plan probe` under srun) with them, and ends
# them: one_node_slurm.sh COMMAND... Needs root, Debian's slurmctld, slurmd, slurm-client and munge, and mounted cgroups;
# exit status 77 where Slurm does not start.
set -eu
[ "$(id -u)" = 0 ] || { echo "skipped: Slurm needs root here"; exit 77; }
state=$(mktemp -d)
export SLURM_CONF=$state/slurm.conf
stop() {  # whatever has begun; named by trap below
  for file in "$state"/*.pid; do
    [ -s "$file" ] || continue
    pid=$(cat "$file")
    kill "$pid" || true
    for _ in $(seq 50); do if kill -0 "$pid" 2> /dev/null; then sleep 0.1; fi; done  # it still writes its state
  done
  rm -rf "$state"
}
trap stop EXIT
mkdir -p "$state/ctld" "$state/d" /run/munge /etc/munge /var/log/munge /var/lib/munge
[ -s /etc/munge/munge.key ] || { dd if=/dev/urandom of=/etc/munge/munge.key bs=1024 count=1 2> /dev/null; }
chown -R munge: /etc/munge /run/munge /var/log/munge /var/lib/munge
chmod 700 /etc/munge; chmod 400 /etc/munge/munge.key; chmod 755 /run/munge
munge -n 2> /dev/null | unmunge > /dev/null 2>&1 || su -s /bin/sh munge -c munged < /dev/null > /dev/null 2>&1
host=$(hostname -s)
cat > "$SLURM_CONF" << CONF
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/backfill
SelectType=select/cons_tres
StateSaveLocation=$state/ctld
SlurmdSpoolDir=$state/d
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/slurmd.pid
SlurmctldLogFile=$state/slurmctld.log
SlurmdLogFile=$state/slurmd.log
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES OverSubscribe=FORCE:64 State=UP
CONF
start() {
  # A daemon that kept the caller's output open would keep a reader of that output waiting for ever.
  slurmctld -c -f "$SLURM_CONF" < /dev/null > "$state/start.log" 2>&1 && slurmd -f "$SLURM_CONF" < /dev/null >> "$state/start.log" 2>&1 || return 1
  for _ in $(seq 10); do
    if timeout 5 srun -n 1 true 2> /dev/null; then return 0; fi
    sleep 0.5
  done
  return 1
}
if start; then
  "$@"
  exit $?
fi
tail -n 5 "$state"/*.log
echo "skipped: Slurm does not start here"
exit 77
