#!/bin/sh
# Checks a bundle of tools/bundle.sh: it needs only glibc from outside, glibc 2.36 is enough, it has no
# LLVM, is smaller than 60 MiB, and runs from a folder that it was moved to. If there is Python, its
# scripts open the library beside them.
#
#   sh tools/check_bundle.sh [FOLDER]    default build/bundle/lssar
#
# Exit code: 0 all of that holds, 1 something does not (one line each), 2 no bundle there.
set -eu

bundle=${1:-build/bundle/lssar}
[ -x "$bundle/bin/lssar" ] || {
  printf 'check_bundle: %s: no bundle there; sh tools/bundle.sh makes one\n' "$bundle" >&2
  exit 2
}
max_mib=60
max_glibc=2.36
failures=0

complain() {
  printf 'check_bundle: %s\n' "$*" >&2
  failures=$((failures + 1))
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
moved="$work/moved to a name with spaces"
cp -R "$bundle" "$moved"

size=$(du -sm "$moved" | cut -f1)
[ "$size" -lt "$max_mib" ] || complain "$size MiB; allowed are less than $max_mib"

for file in "$moved"/bin/* "$moved"/lib/*.so*; do
  name=$(basename "$file")
  # The loader must find each library in the bundle, or it must be glibc's own.
  ldd "$file" | awk -v moved="$moved/" '
    /not found/ { print $1 " is not found"; next }
    $2 != "=>" || index($0, moved) { next }
    $1 !~ /^(libc|libm|libdl|libpthread|librt|libutil|libresolv)\.so\./ { print $1 " is outside" }
  ' >"$work/outside"
  while read -r line; do
    complain "$name: $line"
  done <"$work/outside"
  newest=$(readelf -V "$file" | grep -o 'GLIBC_[0-9.]*' | sort -u -V | tail -n 1)
  newest=${newest#GLIBC_}
  [ "$(printf '%s\n%s\n' "${newest:-0}" "$max_glibc" | sort -V | tail -n 1)" = "$max_glibc" ] ||
    complain "$name: needs glibc $newest; allowed is up to $max_glibc"
done

# The programs that gpu_check.sh runs by name.
for name in golden_test hopper_schedules_test epsilon_test packed_heads_test schedule_probe; do
  [ -x "$moved/bin/$name" ] || complain "bin/$name is missing"
done

if find "$moved" -name '*LLVM*' -o -name '*clang*' | grep -q .; then
  complain "it holds LLVM"
fi

[ "$("$moved/bin/schedule_probe" "$moved/tools/probes.json" | wc -l)" -gt 0 ] ||
  complain "schedule_probe does not read tools/probes.json in a moved folder"
"$moved/bin/lssar" --version >/dev/null || complain "lssar --version fails in a moved folder"
"$moved/bin/lssar" emit --head-dim 64 --p 15 -o "$work/forward.cu" ||
  complain "lssar emit fails in a moved folder"

if command -v python3 >/dev/null 2>&1; then
  python3 -B - "$moved/tools" <<'END' || complain "tools/compare does not open liblssar.so"
import os, sys
sys.path.insert(0, sys.argv[1])
from compare import capi
library = capi.Library(None, sys.argv[1])
assert os.path.samefile(library.path, f"{sys.argv[1]}/../lib/liblssar.so"), library.path
END
fi

[ "$failures" -eq 0 ] || exit 1
printf 'check_bundle: %s: %s MiB, complete\n' "$bundle" "$size"
