#!/usr/bin/env bash
# Unpacks the servers the tests run against into a cache folder: no root, no installation, nothing of the machine changed.
#
#   scripts/servers/fetch.sh redis7 redis8     fetch these, unless they are there already
#   scripts/servers/fetch.sh --all             fetch every server
#   scripts/servers/fetch.sh --list            name them
#
# One `NAME.recipe` next to this script describes a server: the Debian release it comes from (`suite`), exactly the packages
# to unpack (`package`), and one file that proves the result (`proof`). To add a server, add a recipe. What no Debian has comes out of an npm package
# instead (`npm`, with `{arch}` for x64 or arm64, `{machine}` for x64 or aarch64), fetched by npm from the registry it already uses; only its `proof` is unpacked, and nothing run.
# `npm.sha512` has the sum of each: another package than that is refused.
#
# How: every suite gets an apt configuration of its own (own lists, own archive, an empty package status), pointed at the
# mirror this machine already uses. `apt-get download` and `dpkg -x` then need neither root nor dpkg's database.
#
# A finished server is renamed into place in one step and carries a copy of its recipe as stamp, so a half-done one is never
# seen, and a changed recipe is fetched again. Locks make concurrent runs wait for each other instead of doing it twice.
#
# HOLDFAST_SERVERS  the cache folder (default: .servers in the checkout)
# HOLDFAST_MIRROR   a Debian mirror to use instead of the one in the machine's apt sources
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${HOLDFAST_SERVERS:-$here/../../.servers}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

say() { printf '%s\n' "$*" >&2; }
fail() { say "fetch: $1"; shift; for line in "$@"; do say "       $line"; done; exit 1; }
names() { for recipe in "$here"/*.recipe; do basename "$recipe" .recipe; done; }
field() { sed -n "s/^$2  *//p" "$here/$1.recipe"; }
stamped() { cmp -s "$here/$1.recipe" "$cache/$1/.stamp"; }

# The mirror of the machine's own release, out of *.sources (paragraphs of fields) or *.list (one line each).
mirror() {
  if [ -n "${HOLDFAST_MIRROR:-}" ]; then echo "$HOLDFAST_MIRROR"; return; fi
  local release found
  release=$(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-}")
  found=$(
    cat /etc/apt/sources.list.d/*.sources 2>/dev/null | awk -v release="$release" '
      function end() { if (suites ~ " " release " " && parts ~ / main / && uri != "") print uri; suites = parts = uri = "" }
      /^[ \t]*$/ { end() } /^#/ { next }
      tolower($1) == "suites:" { $1 = ""; suites = $0 " " }
      tolower($1) == "components:" { $1 = ""; parts = $0 " " }
      tolower($1) == "uris:" { uri = $2 }
      END { end() }'
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -n 's/^deb  *\(\[[^]]*\] *\)\{0,1\}//p' |
      awk -v release="$release" '$2 == release { for (i = 3; i <= NF; i++) if ($i == "main") print $1 }'
  )
  [ -n "$found" ] || fail "no Debian mirror for release '${release:-unknown}' in this machine's apt sources" \
    'The servers are unpacked from Debian packages. Name a mirror: HOLDFAST_MIRROR=<address> scripts/servers/fetch.sh ...'
  head -n 1 <<<"$found"
}

# Writes the private apt configuration of a suite and brings its package lists up to date (at most every ten minutes).
prepare_suite() {
  local suite=$1 apt=$cache/.apt/$1 address signed=''
  address=$(mirror)
  mkdir -p "$apt/lists/partial" "$apt/archives/partial"
  : >"$apt/status"
  [ -r "$keyring" ] && signed="[signed-by=$keyring] "
  echo "deb $signed$address $suite main" >"$apt/sources.list"
  # The hooks are cleared because container images hook "empty the machine's package cache" onto every update.
  cat >"$apt/apt.conf" <<CONF
Dir::Etc::sourcelist "$apt/sources.list"; Dir::Etc::sourceparts "/dev/null"; Dir::Etc::preferencesparts "/dev/null";
Dir::State "$apt"; Dir::State::lists "$apt/lists"; Dir::State::status "$apt/status";
Dir::Cache "$apt"; Dir::Cache::archives "$apt/archives";
APT::Sandbox::User ""; Acquire::Languages "none"; Acquire::Retries "3";
#clear APT::Update::Pre-Invoke; #clear APT::Update::Post-Invoke; #clear APT::Update::Post-Invoke-Success;
CONF
  if [ -n "$(find "$apt/updated" -mmin -10 2>/dev/null)" ] && cmp -s "$apt/sources.list" "$apt/updated"; then return; fi
  apt-get -q -c "$apt/apt.conf" -o APT::Update::Error-Mode=any update >"$apt/log" 2>&1 ||
    fail "cannot read the package lists of Debian '$suite'" "$(grep -m 3 '^[EW]:' "$apt/log" || tail -n 3 "$apt/log")" \
      'Check that this machine reaches its Debian mirror (apt-get update), then run this again.'
  cp "$apt/sources.list" "$apt/updated"
}

# A link to an absolute path, as packages of Java have to their configuration, would leave the folder: made relative.
relink() {
  local link target
  find "$1" -type l -lname '/*' | while read -r link; do
    target=$1$(readlink "$link")
    [ ! -e "$target" ] && [ ! -L "$target" ] || ln -sfnr "$target" "$link"
  done
}

# Downloads and unpacks one server. Runs under the locks of its name and of its suite.
unpack() {
  local name=$1 suite=$2 packages=$3 apt=$cache/.apt/$2 work=$cache/.unpacking-$1
  rm -rf "$work" "$work.debs"
  mkdir -p "$work" "$work.debs"
  # shellcheck disable=SC2086 # the packages are words on purpose
  (cd "$work.debs" && apt-get -q -c "$apt/apt.conf" download $packages) >"$apt/log" 2>&1 ||
    fail "cannot fetch '$name' from Debian '$suite'" "$(grep -m 3 '^E:' "$apt/log" || tail -n 3 "$apt/log")" \
      "Packages asked for: $packages" \
      "If the suite dropped or renamed one, correct scripts/servers/$name.recipe; if the mirror was away, run this again."
  for deb in "$work.debs"/*.deb; do
    dpkg -x "$deb" "$work" 2>"$apt/log" || fail "cannot unpack $(basename "$deb") of '$name'" "$(tail -n 2 "$apt/log")" \
      "Is there room in $cache? (df -h)"
  done
  relink "$work"
  publish "$name" "$work"
}

# The same out of an npm package. Runs under the lock of its name.
unpack_npm() {
  local name=$1 spec=$2 work=$cache/.unpacking-$1
  case $(uname -m) in
    x86_64) spec=${spec//'{arch}'/x64} spec=${spec//'{machine}'/x64} ;;
    aarch64) spec=${spec//'{arch}'/arm64} spec=${spec//'{machine}'/aarch64} ;;
  esac
  rm -rf "$work" "$work.debs"
  mkdir -p "$work" "$work.debs"
  npm pack --silent --pack-destination "$work.debs" "$spec" >"$work.debs/log" 2>&1 ||
    fail "cannot fetch '$name' from npm: $spec" "$(tail -n 3 "$work.debs/log")" \
      "If the registry dropped it, correct scripts/servers/$name.recipe; if it was away, run this again."
  genuine "$work.debs"/*.tgz "$spec" || fail "what npm gave for $spec is not what scripts/servers/npm.sha512 says" \
    "$(sha512sum "$work.debs"/*.tgz)" "Do not run it. If the recipe's version was changed on purpose, add its line there."
  tar -xzf "$work.debs"/*.tgz --strip-components=1 -C "$work" "package/$(field "$name" proof)" 2>"$work.debs/log" ||
    fail "cannot unpack '$name'" "$(tail -n 2 "$work.debs/log")" "Is there room in $cache? (df -h)"
  publish "$name" "$work"
}

# Whether a file is the npm package of that name and version, by the sum in the list beside the recipes.
genuine() {
  local file=$1 spec=$2 sum
  sum=$(awk -v spec="$spec" '$2 == spec { print $1 }' "$here/npm.sha512")
  [ -n "$sum" ] && [ "$(sha512sum "$file" | cut -d ' ' -f 1)" = "$sum" ]
}

# Into its place in one step, once it is proven to be what was wanted.
publish() {
  local name=$1 work=$2
  [ -e "$work/$(field "$name" proof)" ] || fail "'$name' was unpacked, but $(field "$name" proof) is not in it" \
    "The packages changed: correct scripts/servers/$name.recipe."
  cp "$here/$name.recipe" "$work/.stamp"
  rm -rf "$work.debs" "$cache/.old-$name"
  [ ! -e "$cache/$name" ] || mv -T "$cache/$name" "$cache/.old-$name"
  mv -T "$work" "$cache/$name"
  rm -rf "$cache/.old-$name"
}

fetch() {
  local name=$1 suite packages started=$SECONDS
  exec 8>"$cache/.lock-$name"
  flock 8
  if stamped "$name"; then return; fi # someone else did it while we waited
  if [ -n "$(field "$name" npm)" ]; then
    unpack_npm "$name" "$(field "$name" npm)"
    say "fetch: $name is ready ($((SECONDS - started)) s)"
    return
  fi
  suite=$(field "$name" suite)
  packages=$(field "$name" package | tr '\n' ' ')
  exec 9>"$cache/.lock-suite-$suite"
  flock 9
  prepare_suite "$suite"
  unpack "$name" "$suite" "$packages"
  say "fetch: $name is ready ($((SECONDS - started)) s)"
}

case ${1:-} in
  '' | -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 2 ;;
  --list) names; exit ;;
  --all) mapfile -t wanted < <(names) ;;
  *) wanted=("$@") ;;
esac
missing=()
for name in "${wanted[@]}"; do
  [ -f "$here/$name.recipe" ] || fail "no server is called '$name'" "There are: $(names | tr '\n' ' ')"
  stamped "$name" || missing+=("$name")
done
[ ${#missing[@]} -gt 0 ] || exit 0
needed=''
for name in "${missing[@]}"; do
  if [ -n "$(field "$name" npm)" ]; then needed+=' npm tar flock'; else needed+=' apt-get dpkg flock'; fi
done
for tool in $needed; do
  command -v "$tool" >/dev/null || fail "this machine has no $tool, so '${missing[*]}' cannot be unpacked" \
    'Run the tests on Debian 12 or later, or set HOLDFAST_SERVERS to a folder that such a machine has filled.'
done
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
jobs=()
for name in "${missing[@]}"; do
  (fetch "$name") &
  jobs+=($!)
done
status=0
for job in "${jobs[@]}"; do wait "$job" || status=1; done
exit $status
