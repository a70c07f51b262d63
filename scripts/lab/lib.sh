# shellcheck shell=bash
# Shared by the lab scripts: where state lives, how packages are fetched, how daemons are stopped.
# Sourced, never run.

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
LAB=${OPPTUNE_LAB_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/opptune/lab}
mkdir -p "$LAB"
chmod 700 "$LAB"

say() { printf '%s\n' "$*" >&2; }
die() { say "lab: $*"; exit 1; }

# need COMMAND... : runs install.sh once when one of the commands is missing.
need() {
    local c
    for c in "$@"; do
        command -v "$c" >/dev/null || { "$HERE/install.sh"; break; }
    done
    for c in "$@"; do
        command -v "$c" >/dev/null || die "$c is still missing after install.sh; install the package that has it by hand"
    done
}

# The Debian archive this machine already uses. OPPTUNE_LAB_MIRROR overrides it (needed on other distributions).
mirror() {
    local uri=${OPPTUNE_LAB_MIRROR:-}
    [ -n "$uri" ] || uri=$(apt-get indextargets 'Origin: Debian' 'Label: Debian' 'Created-By: Packages' \
        --format "\$(REPO_URI)" 2>/dev/null | head -n 1)
    [ -n "$uri" ] || die "no Debian archive in this machine's apt sources; set OPPTUNE_LAB_MIRROR to one"
    printf '%s\n' "$uri"
}

# lab_apt SUITE ARCH COMMAND arguments... : apt-get or apt-cache with sources, lists and an (empty) status file of its
# own, so that it neither sees nor changes what is installed on this machine.
lab_apt() {
    local suite=$1 arch=$2 root=$LAB/apt/$1-$2 command=$3
    shift 3
    mkdir -p "$root/lists/partial" "$root/archives/partial"
    : >"$root/status"
    printf 'deb [signed-by=%s] %s %s main\n' \
        "${OPPTUNE_LAB_KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}" "$(mirror)" "$suite" >"$root/sources.list"
    "$command" -qq -o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o APT::Install-Recommends=false \
        -o "Dir::State=$root" -o "Dir::State::status=$root/status" -o "Dir::State::lists=$root/lists" \
        -o "Dir::Cache=$root" -o "Dir::Cache::archives=$root/archives" -o "Dir::Etc::sourcelist=$root/sources.list" \
        -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null -o Debug::NoLocking=true \
        -o APT::Sandbox::User=root "$@"
}

# fetch SUITE ARCH DEST PACKAGE... : unpacks the packages and all they depend on under DEST. Done once; delete DEST to do
# it again. fetch_only does the same without the dependencies.
fetch() { fetch_with with_dependencies "$@"; }
fetch_only() { fetch_with without_dependencies "$@"; }

fetch_with() {
    local how=$1 suite=$2 arch=$3 dest=$4 lock
    shift 4
    exec {lock}>"$LAB/fetch.lock"
    flock "$lock"   # one at a time: two tests may start the lab together
    if [ "$(cat "$dest/.complete" 2>/dev/null)" != "$*" ]; then
        say "lab: fetching $* ($suite $arch)"
        lab_apt "$suite" "$arch" apt-get update >&2
        rm -f "$LAB/apt/$suite-$arch/archives/"*.deb
        "$how" "$suite" "$arch" "$@" >&2
        unpack "$LAB/apt/$suite-$arch/archives" "$dest"
        echo "$*" >"$dest/.complete"
    fi
    exec {lock}>&-
}

with_dependencies() { lab_apt "$1" "$2" apt-get install --download-only -y "${@:3}"; }
without_dependencies() { (cd "$LAB/apt/$1-$2/archives" && lab_apt "$1" "$2" apt-get download "${@:3}"); }

# unpack DIRECTORY DEST: every package of DIRECTORY, which are then deleted.
unpack() {
    local deb
    rm -rf "$2"
    mkdir -p "$2/usr/bin" "$2/usr/sbin" "$2/usr/lib" "$2/usr/lib64"
    # Old and new packages disagree on /bin or /usr/bin; with these links they land in one place.
    ln -s usr/bin usr/sbin usr/lib usr/lib64 "$2/"
    for deb in "$1"/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$2" \
            --exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='./usr/share/locale'
        rm -f "$deb"
    done
}

# wait_for SECONDS COMMAND... : true as soon as the command is, false after SECONDS.
wait_for() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        sleep 0.2
    done
}

port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# daemon PIDFILE LOG COMMAND... : starts it in a session of its own, with none of our descriptors.
daemon() {
    local pidfile=$1 log=$2
    shift 2
    setsid "$@" >"$log" 2>&1 </dev/null &
    echo "$! $(started $!)" >"$pidfile"
}

# started PID: when it started (clock ticks since boot); nothing if it is gone or a zombie.
started() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | awk '$1 != "Z" { print $20 }'; }

# alive PIDFILE: is the process we started still there? A pid that was given to another process is not ours.
alive() {
    local pid at
    read -r pid at 2>/dev/null <"$1" || return 1
    [ -n "$at" ] && [ "$(started "$pid")" = "$at" ]
}
gone() { ! alive "$1"; }

# signal PIDFILE SIGNAL
signal() {
    local pid
    alive "$1" || return 1
    read -r pid _ <"$1"
    kill "-$2" "$pid"
}

# stop PIDFILE: ends the process it names, by force after 5 seconds.
stop() {
    if signal "$1" TERM; then
        wait_for 5 gone "$1" || signal "$1" KILL || true
    fi
    rm -f "$1"
}

# The lab's adb server: its own port, its own keys, and no scan for emulators on ports 5555 and up.
lab_adb() {
    local port=$1
    shift
    HOME=$LAB/adb-home ADB_LOCAL_TRANSPORT_MAX_PORT=5553 ANDROID_ADB_SERVER_PORT=$port timeout "${LAB_ADB_TIMEOUT:-60}" adb "$@"
}

adb_server() {
    mkdir -p "$LAB/adb-home"
    # Closing the inherited descriptors keeps `eval "$(adbd.sh up)"` from waiting for the server to end.
    port_open "$1" || lab_adb "$1" start-server >/dev/null 2>&1 </dev/null
    wait_for 30 port_open "$1" || die "no adb server on port $1; is another program on it? set OPPTUNE_LAB_ADB_SERVER_PORT"
}

adb_server_stop() { if port_open "$1"; then lab_adb "$1" kill-server >/dev/null 2>&1 || true; fi; }

adb_ready() {
    case $(lab_adb "$1" -s "$2" get-state 2>&1) in
        # After a reboot the server may still believe in the old connection: only an answer proves it.
        device) LAB_ADB_TIMEOUT=5 lab_adb "$1" -s "$2" shell : && return 0 ;;
        *offline*) ;;
        *) lab_adb "$1" connect "$2"; return 1 ;;
    esac
    lab_adb "$1" disconnect "$2"
    return 1
}

# adb_connect SERVER_PORT SERIAL: connects, and prints what a test needs to know.
adb_connect() {
    wait_for 60 adb_ready "$1" "$2" || die "adb cannot reach $2 through the server on port $1"
    printf 'ADB_SERVER_PORT=%s\nANDROID_ADB_SERVER_PORT=%s\nADB_SERIAL=%s\nADB_LOCAL_TRANSPORT_MAX_PORT=5553\n' "$1" "$1" "$2"
}

ssh_key() { [ -e "$1" ] || ssh-keygen -q -t ed25519 -N '' -C opptune-lab -f "$1"; }
