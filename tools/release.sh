#!/usr/bin/env bash
# tools/release.sh [TAG]: makes all artefacts of a release and their checksums, in build/release-TAG (without TAG, of the working tree, in build/release-tree):
#   penstock_VERSION_amd64.deb, libpenstock0.1_..., libpenstock-dev_..., python3-penstock_...       for this Debian
#   penstock-VERSION-1.x86_64.rpm, penstock-libs-..., penstock-devel-...        need only glibc, as all that follows
#   penstock-VERSION-linux-x86_64.tar.gz
#   penstock-VERSION-cp311-cp311-manylinux_..._x86_64.whl, ...-cp312-abi3-...  wheels, as far as this machine has their Pythons
#   penstock-VERSION-source.tar.gz, penstock-VERSION-manual.tar.gz, penstock-VERSION.spdx.json (their contents), SHA256SUMS
# The same tag gives the same bytes on machines with the same packages: times are the commit's, and no path of the machine is stored.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tag=${1:-}
out=$root/build/release-${tag:-tree}
version=$(sed -n 's/^project(penstock VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
name=penstock-$version
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct "${tag:-HEAD}")} LC_ALL=C TZ=UTC
rm -rf "$out" && mkdir -p "$out"

tree=$root
if [ -n "$tag" ]; then
  tree=$root/build/release-source
  rm -rf "$tree" && mkdir -p "$tree"
  git -C "$root" archive "$tag" | tar -x -C "$tree"
  version=$(sed -n 's/^project(penstock VERSION \([0-9.]*\).*/\1/p' "$tree/CMakeLists.txt")
  name=penstock-$version
  [ "$tag" = "v$version" ] || { echo "release: the tag $tag is not v$version, which CMakeLists.txt has" >&2; exit 2; }
fi
git -C "$root" archive --format=tar --prefix="$name/" "${tag:-HEAD}" | gzip -n9 >"$out/$name-source.tar.gz"

"$tree/tools/setup.sh" check
build=$tree/build/package work=$(mktemp -d)
# Both builds have the same objects, and differ in the libraries that they find. The second one continues in the folder of the first.
forget_libraries() { rm -f "$build/CMakeCache.txt"; }
trap 'forget_libraries; rm -rf "$work"' EXIT

# pack KIND: makes CPack's package of the build.
pack() {
  rm -rf "$build/_packages"
  (cd "$build" && umask 022 && cpack --config CPackConfig.cmake -G "$1" -B _packages >_packages.log 2>&1) || { cat "$build/_packages.log" >&2; exit 2; }
  find "$build/_packages" -maxdepth 1 -type f -exec cp -t "$out" {} +
}
forget_libraries
"$tree/tools/build.sh" package
pack DEB
cp "$build/cli/penstock" "$work/shared"
forget_libraries
"$tree/tools/build.sh" static@package
pack TGZ
pack RPM
"$tree/tools/wheels.py" "$out"

"$tree/tools/manual.py" "$build/cli/penstock" "$work"
tar -C "$work" --transform "s,^html,$name-manual," --sort=name --owner=0 --group=0 --numeric-owner \
  --mtime="@$SOURCE_DATE_EPOCH" -c html | gzip -n9 >"$out/$name-manual.tar.gz"

"$tree/tools/sbom.py" "$version" "$build" "$work/shared" "$out" >"$out/$name.spdx.json"
(cd "$out" && sha256sum -- * >.sums && mv .sums SHA256SUMS)
echo "release: $out" >&2
cat "$out/SHA256SUMS"
