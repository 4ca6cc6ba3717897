# What tools/wheel.sh and tools/llvm_wheel.sh do alike. They source it in the root of the source tree,
# with `out`, `name` (of the wheel's files) and `platform` set.

build=$(realpath -m "${LSSAR_BUILD_DIR:-build/release}")
environment=$PWD/build/wheel_environment

# build_target TARGET: in the build folder, which is configured if it is new.
build_target() {
  for tool in cmake ninja python3; do
    command -v "$tool" >/dev/null 2>&1 || {
      printf '%s: %s is missing; sh tools/setup.sh test installs it\n' "$0" "$tool" >&2
      exit 3
    }
  done
  [ -f "$build/build.ninja" ] || cmake --preset release -DLSSAR_UNITY=ON -B "$build"
  cmake --build "$build" --target "$1"
}

# make_wheel SOURCE FOLDER [DEFINITION...]: the wheel of SOURCE with these CMake definitions, made in
# FOLDER and checked by auditwheel. --only-plat: its name says the oldest system that will do, and
# nothing else.
make_wheel() {
  python3 tests/python/environment.py "$environment" tests/python/wheel_requirements.txt
  source=$1
  folder=$2
  shift 2
  for definition; do
    set -- "$@" --config-settings "cmake.define.$definition"
    shift
  done
  "$environment/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps \
    --no-build-isolation --wheel-dir "$folder" --config-settings build-dir="$folder/build" "$@" "$source"
  PATH="$environment/bin:$PATH" "$environment/bin/python" -m auditwheel repair --plat "$platform" \
    --only-plat --wheel-dir "$out" "$folder/$name"-*.whl
  ls -l "$out/$name"-*-"$platform".whl
}
