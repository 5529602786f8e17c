#!/usr/bin/env bash
# The kernels that the optimizer's time is measured with move 16 bytes an access: narrower ones stay below what a fused
# Adam reaches. Looks into what a compiler makes of them: vectorised.sh SOURCE COMPILER FLAGS...
set -eu
source=$1
shift
assembly=$("$@" -S -o - "$source" 2> /dev/null || "$@" -ptx -o - "$source")
status=0
body() {  # of the kernel whose mangled name holds $1: up to the next one
  awk -v name="$1" '/^[ \t]*(\.visible )?(\.entry |_Z)/ {on = index($0, name) > 0} on' <<< "$assembly"
}
count() { body "$1" | grep -cE "$2" || true; }
expect() {  # expect KERNEL WHAT PATTERN LEAST MOST
  local seen
  seen=$(count "$1" "$3")
  if [ "$seen" -lt "$4" ] || [ "$seen" -gt "$5" ]; then
    echo "$1: $seen $2, and not $4 to $5"
    status=1
  fi
}
wide_load='global_load_dwordx4|flat_load_dwordx4|ld\.global\.(nc\.)?v4\.f32|ld\.global\.(nc\.)?v4\.u32'
wide_store='global_store_dwordx4|flat_store_dwordx4|st\.global\.v4\.(f32|u32)'
narrow='(global|flat)_load_(dword|ushort|short|ubyte)(_[a-z0-9]+)*[[:blank:]]|(global|flat)_store_(dword|short|byte)(_[a-z0-9]+)*[[:blank:]]|(ld|st)\.global\.(nc\.)?[fubs][0-9]'
for kernel in 4adam 4cast; do
  [ -n "$(body $kernel)" ] || { echo "no kernel $kernel in what the compiler made"; exit 1; }
  expect $kernel "accesses of less than eight bytes" "$narrow" 0 0
done
expect 4adam "loads of 16 bytes" "$wide_load" 4 64
expect 4adam "stores of 16 bytes" "$wide_store" 3 64
expect 4cast "loads of 16 bytes" "$wide_load" 2 64
expect 4cast "stores of 16 bytes" "$wide_store" 1 64
[ $status -ne 0 ] || echo "adam and cast move 16 bytes an access"
exit $status
