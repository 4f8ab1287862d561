#!/usr/bin/env bash
# tools/build.sh PRESET[@FOLDER] [TARGETS...]: configures and builds quietly, in build/PRESET or build/FOLDER; the whole log is printed only
# after a failure.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=${1%@*} build=$root/build/${1#*@}
shift
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

. "$root/tools/progress.sh"

# Prints what is compiled now: layers, and files that are compiled alone. These are arguments of running compilers.
compiled_now() {
  local file
  grep -zhE '^/.*\.(cc|cxx|c)$' /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | while IFS= read -r file; do
    [[ $file == "$root"/* ]] || continue
    file=${file#"$build"/} file=${file#"$root"/}
    printf '%s\n' "${file%%/CMakeFiles/*}"
  done | sort -u | paste -sd ' '
}

# Copies the build's lines to the log, and shows how many steps are done, and what the next ones wait for.
counted() {
  local line= count=configuring more=0 now
  while ((more != 1)); do
    more=0
    read_or_wait line || more=$?
    if ((more == 0)) || [[ $more == 1 && -n $line ]]; then
      printf '%s\n' "$line"
      [[ $line =~ ^\[([1-9][0-9]*)/([0-9]+)\] ]] && count="${BASH_REMATCH[1]} of ${BASH_REMATCH[2]} steps"
      [[ $line != *"Build files have been written"* ]] || count="no step yet"
      line=
    fi
    if progress_due; then
      now=$(compiled_now || true)
      progress "build: $count${now:+, compiling ${now// / and }}"
    fi
  done
  progress_end
}

if [ ! -e "$build/build.ninja" ]; then
  echo "build: the first time takes minutes, later what has changed is built; log in ${log#"$root"/}" >&2 || true
fi
if ! (cd "$root" && cmake --preset "$preset" -B "$build" "${launcher[@]}" 9>&- &&
  cmake --build "$build" "${targets[@]}" 9>&-) </dev/null 2>&1 | counted >"$log"; then
  cat "$log" >&2
  echo "build: preset $preset failed" >&2
  exit 2
fi
# Warnings are shown even if the build succeeds.
grep -A 6 'warning:' "$log" >&2 || true
