#!/bin/sh
# Builds the relocatable bundle: a folder with the command, the library, the tests and the
# benchmarks. It runs on any x86-64 Linux with glibc 2.36 or later; nothing else need be installed.
# It holds no LLVM: a machine with a GPU has NVRTC.
#
#   sh tools/bundle.sh [FOLDER]    default build/bundle/lssar; replaced if it is there
#
# It has bin/ (lssar, lssar-tune-worker, schedule_probe, the tests that a GPU runs, the benchmarks
# except the virtual device's own), lib/ (liblssar.so and what it needs), include/, data/ (of the tests), gpu_check.sh,
# tests.txt (label and program of each test), COMMIT, tools/probes.json (what schedule_probe asks),
# tools/probe_results.py, which needs Python there, tools/compare_torch.py and tools/gpu_python.py,
# which need torch too, and python/, the package that they use.
# Exit code: 0 done, 2 wrong usage, 3 a tool is missing, else that of the step that failed.
set -eu

[ $# -le 1 ] || { printf 'usage: sh tools/bundle.sh [FOLDER]\n' >&2; exit 2; }
cd "$(dirname "$0")/.."
build=build/portable
bundle=${1:-build/bundle/lssar}

for tool in cmake ninja patchelf strip ldd; do
  command -v "$tool" >/dev/null 2>&1 || {
    printf 'bundle: %s is missing; sh tools/setup.sh test installs it\n' "$tool" >&2
    exit 3
  }
done

[ -f "$build/build.ninja" ] || cmake --preset portable
cmake --build --preset portable

# It is made beside the target and moved there at the end, so that a failure leaves no half bundle.
staging="$bundle.partial"
rm -rf "$staging"
mkdir -p "$staging/bin" "$staging/lib" "$staging/include"

# is_wanted NAME: whether the bundle has this program. The other tests need no GPU, and would make the
# bundle three times as large.
is_wanted() {
  case $1 in
    lssar | lssar-tune-worker | schedule_probe) true ;;
    virtual_bench | hopper_bench | wgmma_bench) false ;;
    *_bench) true ;;
    *) grep -qE "^(gpu|golden) $1\$" "$build/tests.txt" ;;
  esac
}
for program in "$build"/bin/*; do
  if [ -f "$program" ] && is_wanted "$(basename "$program")"; then cp "$program" "$staging/bin/"; fi
done
find "$build/lib" -maxdepth 1 -name '*.so*' -exec cp -P {} "$staging/lib/" \;
cp -R include/lssar "$staging/include/"
mkdir -p "$staging/data"
cp -R tests/golden/data "$staging/data/golden"
cp tools/gpu_check.sh README.md LICENSE "$staging/"
mkdir -p "$staging/tools/compare" "$staging/python/lssar"
cp tools/compare_torch.py tools/gpu_python.py tools/probe_results.py tools/probes.json \
  "$staging/tools/"
cp tools/compare/*.py "$staging/tools/compare/"
cp python/lssar/*.py "$staging/python/lssar/"
cp "$build/tests.txt" "$staging/"
git rev-parse HEAD >"$staging/COMMIT" 2>/dev/null || printf 'unknown\n' >"$staging/COMMIT"
if [ -n "$(git status --porcelain --untracked-files=no 2>/dev/null)" ]; then
  printf '%s with local changes\n' "$(cat "$staging/COMMIT")" >"$staging/COMMIT"
fi

# The shared libraries that these need, except glibc's own, which must be the other machine's.
for file in "$staging"/bin/* "$staging"/lib/*.so*; do
  ldd "$file"
done | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | while read -r library; do
  name=$(basename "$library")
  case $name in
    ld-linux* | libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libutil.so.* | \
      libresolv.so.*) ;;
    *) [ -e "$staging/lib/$name" ] || cp -L "$library" "$staging/lib/$name" ;;
  esac
done

# strip comes first, because it breaks files whose sections patchelf has moved.
for file in "$staging"/bin/*; do
  strip "$file"
  patchelf --set-rpath "\$ORIGIN/../lib" "$file"
done
for file in "$staging"/lib/*.so*; do
  [ -L "$file" ] && continue
  chmod u+w "$file"
  strip --strip-unneeded "$file"
  patchelf --set-rpath "\$ORIGIN" "$file"
done

mkdir -p "$(dirname "$bundle")"
rm -rf "$bundle"
mv "$staging" "$bundle"
printf 'bundle: %s, %s MiB\n' "$bundle" "$(du -sm "$bundle" | cut -f1)"
