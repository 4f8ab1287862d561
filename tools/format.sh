#!/usr/bin/env bash
# tools/format.sh: formats every C++ file. tools/format.sh --check: only names unformatted files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Files that git tracks or would add, so not those of build folders. The clone may belong to another user.
files() { git -c safe.directory="$PWD" ls-files -z --cached --others --exclude-standard '*.cc' '*.h'; }

if [ "${1:-}" != --check ]; then
  files | xargs -0 -r clang-format-19 -i
elif ! complaints=$(files | xargs -0 -r clang-format-19 --dry-run -Werror 2>&1); then
  sed -n 's/^\([^ :]*\.\(cc\|h\)\):[0-9].*/\1/p' <<<"$complaints" | sort -u
  echo "run tools/format.sh"
  exit 1
fi
