# shellcheck shell=bash
# What scripts/test and scripts/demo share. Sourced by bash, with set -euo pipefail, from the root
# of the source tree.

# A second clone of the tree finds what the first one compiled.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-true}
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros,include_file_mtime,include_file_ctime}

say() { printf '\n== %s\n' "$*"; }

cores() { echo "${NDT_JOBS:-$(nproc)}"; }

as_root() {
  if [[ $(id -u) == 0 ]]; then
    "$@"
  elif command -v sudo > /dev/null; then
    sudo "$@"
  else
    echo "needs root or sudo to run: $*" >&2
    return 1
  fi
}

is_installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2> /dev/null) == installed ]]
}

# Installs what scripts/packages.txt lists and this machine lacks. Quick when nothing is missing. A
# name with a ? is of packages that one of the Debians does not have.
install_packages() {
  local missing=() optional=() name
  while read -r name; do
    if [[ -z $name || $name == \#* ]] || is_installed "${name%\?}"; then
      continue
    elif [[ $name == *\? ]]; then
      optional+=("${name%\?}")
    else
      missing+=("$name")
    fi
  done < scripts/packages.txt
  [[ ${#missing[@]} == 0 ]] || as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update < /dev/null
  for name in "${optional[@]}"; do
    if apt-cache show "$name" > /dev/null 2>&1; then missing+=("$name"); fi
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  say "installing ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -q install -y --no-install-recommends "${missing[@]}" < /dev/null
}

# build PRESET [TARGET…]: configures and builds build/PRESET; without targets, all of it.
build() {
  local preset=$1
  shift
  say "building build/$preset"
  cmake --preset "$preset" --log-level=WARNING \
    -D CMAKE_CXX_COMPILER_LAUNCHER=ccache -D CMAKE_CUDA_COMPILER_LAUNCHER=ccache
  cmake --build "build/$preset" -j "$(cores)" ${1:+--target "$@"}
}
