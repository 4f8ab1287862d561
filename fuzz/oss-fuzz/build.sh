#!/usr/bin/env bash
# OSS-Fuzz runs this script: it builds all targets to $OUT, each with its dictionary and corpus, by
# $CXX with $CXXFLAGS, linked with $LIB_FUZZING_ENGINE.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ -d "$root/../../fuzz" ] && root=$root/../.. || root=$SRC/penstock
build=${WORK:-$root/build}/oss-fuzz

# (Only headers of fmt: the system's library may be built for another C++ library than that of
# $CXXFLAGS.)
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=None -DPENSTOCK_FUZZ=ON -DPENSTOCK_FUZZING_ENGINE="$LIB_FUZZING_ENGINE" \
  -DPENSTOCK_STATIC=ON -DPENSTOCK_TESTS=OFF -DPENSTOCK_BENCH=OFF -DPENSTOCK_INSTALL=OFF
targets=()
for source in "$root"/fuzz/*_fuzz.cc; do targets+=("$(basename "$source" .cc)"); done
cmake --build "$build" --target "${targets[@]}"
for target in "${targets[@]}"; do
  cp "$build/fuzz/$target" "$OUT/"
  dictionary=$root/fuzz/${target%_fuzz}.dict
  if [ -e "$dictionary" ]; then cp "$dictionary" "$OUT/$target.dict"; fi
  corpus=$root/fuzz/corpus/${target%_fuzz}
  if [ -d "$corpus" ]; then (cd "$corpus" && python3 -m zipfile -c "$OUT/${target}_seed_corpus.zip" *); fi
done
