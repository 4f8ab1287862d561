#!/usr/bin/env bash
# Installs missing packages for the build. Works on a bare Debian 12 or 13, as root or with sudo, without a terminal, and does
# nothing if all are installed. Arguments: "run" (packages of ./run), "python" (also those of `pip install .`), "bench" (also
# the rivals of penstock-bench, DuckDB, polars and pyarrow from PyPI, in build/rivals, and packages of the Python package, in
# build/python) or "check" (packages of ./check, build/python, and the manual's Sphinx in build/sphinx).
set -euo pipefail

build_packages=(g++ cmake ninja-build pkg-config ccache git python3 liburing-dev libcli11-dev libfmt-dev
  nlohmann-json3-dev zlib1g-dev libzstd-dev liblz4-dev liblzma-dev libbz2-dev libpcre2-dev)
check_packages=(libbpf-dev libgtest-dev librapidcheck-dev clang-19 clang-format-19 clang-tidy-19 lld-19 llvm-19 libclang-rt-19-dev
  rapidjson-dev libsimdjson-dev libboost-dev python3-clang-19 locales zstd lz4 fio strace doxygen codespell rpm debootstrap)
bench_packages=(libbpf-dev clang-19 libtbb-dev libhwy-dev libips4o-dev libboost-dev libstxxl-dev python3-pip python3-venv python3-dev fio jq)

packages=("${build_packages[@]}")
case "${1:-run}" in
  check) packages+=("${check_packages[@]}" "${bench_packages[@]}") ;;
  python) packages+=(python3-venv python3-dev) ;;
  bench) packages+=("${bench_packages[@]}" python3-matplotlib) ;;
esac
if [ "${1:-run}" = check ]; then
  # Node, a browser and kubectl may come from elsewhere than Debian.
  command -v npm >/dev/null || packages+=(nodejs npm)
  command -v chromium-headless-shell chromium chromium-browser google-chrome >/dev/null ||
    packages+=(chromium-headless-shell)
  command -v kubectl >/dev/null || packages+=(kubernetes-client)
fi

# Packages of PyPI and npm come from the lists in this folder, with hashes, and run no scripts when they are installed.
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# install_from_pypi FOLDER LIST WITHOUT: installs LIST in its own environment. If that fails, prints WITHOUT, the consequence.
install_from_pypi() {
  local folder=$tools/../build/$1 list=$tools/$2
  cmp -s "$list" "$folder/installed" && return
  echo "setup: installing what tools/$2 lists in build/$1" >&2
  rm -rf "$folder"
  if python3 -m venv "$folder" >&2 &&
    "$folder/bin/pip" install -q --require-hashes --only-binary :all: -r "$list" >&2; then
    cp "$list" "$folder/installed"
  else
    echo "setup: they could not be installed; $3" >&2
    rm -rf "$folder"
  fi
}
# Databases for the bench external-sort, and Sphinx for the manual.
install_rivals() { install_from_pypi rivals rivals.txt "the bench external-sort goes on without them"; }
install_sphinx() { install_from_pypi sphinx manual.txt "the test of the manual will be skipped"; }
# Packages that build and test the Python package.
install_python() { install_from_pypi python python.txt "the Python package is neither built nor tested"; }
# The driver of the browser for the report's page, and pyright. Without them their tests are skipped, visibly.
install_from_npm() {
  local folder=$tools/../build/node lock=$tools/npm/package-lock.json
  cmp -s "$lock" "$folder/installed" && return
  echo "setup: installing what tools/npm/package-lock.json lists in build/node" >&2
  rm -rf "$folder" && mkdir -p "$folder" && cp "$tools/npm/package.json" "$lock" "$folder"
  if npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund --loglevel=error </dev/null >&2; then
    cp "$lock" "$folder/installed"
  else
    echo "setup: it could not be installed; the test of the report's page will be skipped, and pyright's part of that of types" >&2
  fi
}
finish() {
  [ "${1:-run}" != bench ] || { install_rivals && install_python; }
  # Side by side: each waits for the network, then unpacks. A failure skips tests, and is reported by its own line.
  [ "${1:-run}" != check ] || { install_from_npm & install_sphinx & install_python & wait; }
  exit 0
}

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && finish "$@"

if ! command -v apt-get >/dev/null; then
  echo "setup: no apt-get here. Install what these packages of Debian have: ${missing[*]}" >&2
  echo "setup: then: cmake --preset release && cmake --build build/release" >&2
  exit 2
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: these packages are missing: ${missing[*]}; install them, or run this as root" >&2
    exit 2
  fi
  as_root=(sudo)
fi

echo "setup: installing ${missing[*]} (a minute or two)" >&2
log=$tools/../build/setup.log
mkdir -p "$tools/../build"
. "$tools/progress.sh"
# shown NAME: copies apt's lines to the log, and shows its reports: KIND:PACKAGE:PERCENT:TEXT.
shown() {
  local line= step=$1 more=0
  while ((more != 1)); do
    more=0
    read_or_wait line || more=$?
    if [[ $more == 0 && $line =~ ^(dl|pm)status:[^:]*:([0-9]+)[^:]*:(.*) ]]; then
      step="${BASH_REMATCH[2]} %, ${BASH_REMATCH[3]}"
    elif ((more != 2)); then
      printf '%s\n' "$line"
    fi
    ((more == 2)) || line=
    ! progress_due || progress "setup: $step"
  done
  progress_end
}
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 apt-get -q -o APT::Status-Fd=1 "$@" </dev/null 2>&1 | shown "apt-get $1" >>"$log"
}
install() { apt install -y --no-install-recommends "${missing[@]}"; }
: >"$log"
# An old package list may suffice; otherwise it is fetched, and the installation tried once more.
install || { apt update && install; } || {
  cat "$log" >&2
  echo "setup: these packages could not be installed: ${missing[*]}" >&2
  exit 2
}
finish "$@"
