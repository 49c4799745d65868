# What the scripts share; sourced, with the repository's root as the current folder afterwards.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

name=$(basename "$0")
say() { printf '%s: %s\n' "$name" "$*"; }
die() { printf '%s: %s\n' "$name" "$*" >&2; exit 1; }

# Debian 12 is the one system whose packages are known by name and version.
os_release=${OS_RELEASE_FILE:-/etc/os-release}
is_debian_12() {
  [ -r "$os_release" ] && command -v apt-get >/dev/null && command -v dpkg-query >/dev/null &&
    (. "$os_release"; [ "${ID:-}" = debian ] && [ "${VERSION_ID:-}" = 12 ])
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; return; fi
  command -v sudo >/dev/null || die "needs root for: $* (run it as root, or install sudo)"
  sudo "$@"
}

# Prints those of the given "name version" lines whose package is not installed in at least that version.
missing_packages() {
  local installed package version have
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status} ${Version}\n' 2>/dev/null)
  while read -r package version; do
    case $package in ''|'#'*) continue;; esac
    have=$(awk -v p="$package" '$1 == p && $2 == "installed" { print $3; exit }' <<<"$installed")
    if [ -z "$have" ] || ! dpkg --compare-versions "$have" ge "$version"; then echo "$package"; fi
  done
}

# Installs the named Debian packages and nothing that they only recommend.
apt_install() {
  say "installing $# Debian packages: $*"
  as_root apt-get update -qq || die "apt-get update failed: see above"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null ||
    die "apt-get could not install: $*"
}
