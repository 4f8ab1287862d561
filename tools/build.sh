#!/usr/bin/env bash
# tools/build.sh PRESET [TARGETS...]: configures and builds quietly; the whole log is printed only after a failure.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=$1
shift
build=$root/build/$preset
log=$build/build.log
mkdir -p "$build"
# Only one build at a time in a folder, since `./run a | ./run b` starts two. The lock ends with this process.
exec 9>"$build/build.lock"
flock 9

# ccache accepts precompiled headers only if their times are ignored.
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros,include_file_mtime,include_file_ctime}
# ccache takes the list of includes from the compiler, which writes it anyway, instead of running the preprocessor first.
export CCACHE_DEPEND=1
launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
targets=()
[ $# -gt 0 ] && targets=(--target "$@")

# Copies ninja's lines to the log. On a terminal, one line shows the count.
counted() {
  local line count
  while IFS= read -r line || [ -n "$line" ]; do
    printf '%s\n' "$line"
    count=${line#\[} count=${count%%\]*}
    [[ -t 2 && $line == \[*/*\]* ]] && printf '\rbuild: %s of %s, log in %s\033[K' "${count%/*}" "${count#*/}" "${log#"$root"/}" >&2
  done
  [ ! -t 2 ] || printf '\r\033[K' >&2
}

if [ ! -e "$build/build.ninja" ]; then
  echo "build: the first time takes some minutes of all processors" >&2 || true
fi
if ! (cd "$root" && cmake --preset "$preset" "${launcher[@]}" 9>&- &&
  cmake --build "$build" "${targets[@]}" 9>&-) </dev/null 2>&1 | counted >"$log"; then
  cat "$log" >&2
  echo "build: preset $preset failed" >&2
  exit 2
fi
# Warnings are shown even if the build succeeds.
grep -A 6 'warning:' "$log" >&2 || true
