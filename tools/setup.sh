#!/usr/bin/env bash
# Installs what the build needs and this machine lacks. Works on a bare Debian 12, as root or with sudo, without a
# terminal, and does nothing where all is there. Arguments: "run" (what ./run needs), "bench" (and the rivals that
# penstock-bench measures against) or "check" (what ./check needs).
set -euo pipefail

build_packages=(g++ cmake ninja-build pkg-config ccache git python3 liburing-dev libcli11-dev libfmt-dev
  nlohmann-json3-dev zlib1g-dev libzstd-dev liblz4-dev libpcre2-dev)
check_packages=(libgtest-dev librapidcheck-dev clang-19 clang-format-19 libclang-rt-19-dev rapidjson-dev
  libsimdjson-dev libboost-dev zstd lz4 fio)
bench_packages=(libtbb-dev libhwy-dev libips4o-dev libboost-dev python3-pip python3-matplotlib fio)

packages=("${build_packages[@]}")
case "${1:-run}" in
  check) packages+=("${check_packages[@]}" "${bench_packages[@]}") ;;
  bench) packages+=("${bench_packages[@]}") ;;
esac

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: these packages are missing: ${missing[*]}; install them, or run this as root" >&2
    exit 2
  fi
  as_root=(sudo)
fi

echo "setup: installing ${missing[*]}" >&2
install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" \
    </dev/null >&2
}
# A package list that was fetched before may do; where it does not, fetch it and try once more.
install || { "${as_root[@]}" apt-get update -q </dev/null >&2 && install; }
