#!/usr/bin/env bash
# Starts Slurm and munge on this machine alone, so that the test of `plan probe` under srun runs; needs root and the
# packages slurm-wlm and munge. `one_node_slurm.sh stop` ends what it started.
set -eu
state=${TMPDIR:-/tmp}/plan-one-node-slurm
stop() { for pid in "$state"/*.pid; do [ -s "$pid" ] && kill "$(cat "$pid")" 2> /dev/null || true; done; }
if [ "${1:-}" = stop ]; then stop; exit 0; fi
mkdir -p "$state/ctld" "$state/d" /run/munge /etc/munge /var/log/munge /var/lib/munge
[ -s /etc/munge/munge.key ] || { dd if=/dev/urandom of=/etc/munge/munge.key bs=1024 count=1 2> /dev/null; }
chown -R munge: /etc/munge /run/munge /var/log/munge /var/lib/munge
chmod 700 /etc/munge; chmod 400 /etc/munge/munge.key; chmod 755 /run/munge
pgrep -x munged > /dev/null || su -s /bin/sh munge -c munged
host=$(hostname -s)
cat > /etc/slurm/slurm.conf << CONF
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
slurmctld -c
slurmd
for _ in $(seq 30); do srun -n 1 true 2> /dev/null && exit 0; sleep 0.5; done
tail -5 "$state"/*.log
exit 1
