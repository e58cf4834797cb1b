#!/bin/sh
# Tries the packages of target/package as people would: in a minimal Debian without Rust, gcc, Python or network,
# installs the .deb, makes a first video on the command line, opens the window, removes it; the same with the .rpm, by
# rpm itself in the same system; then from the archive as an ordinary user. Prints a table; 1 where anything is not as it
# should be.
#
#     packaging/try-packages.sh [FOLDER WITH THE PACKAGES [FOLDER FOR THE SYSTEM]]
#
# Needs root, mmdebstrap, rpm and a Debian mirror for the system itself. What is tried has no network. CLIP=balloon.webp
# names another first video, for packages without H.264.
set -eu

packages="${1:-target/package}"
root="${2:-$(mktemp -d)}"
video_file="${CLIP:-balloon.mp4}"
failed=0

fail() {
    echo "error: $1" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || fail "making a system in a folder needs root"
command -v mmdebstrap >/dev/null || fail "install the package mmdebstrap"
deb="$(ls "$packages"/safelight_*_amd64.deb)" || fail "there is no .deb in $packages: cargo xtask package makes it"
rpm="$(ls "$packages"/safelight-*.x86_64.rpm)" || fail "there is no .rpm in $packages"
command -v rpm >/dev/null || fail "install the package rpm"
archive="$(ls "$packages"/safelight-*-linux-x86_64.tar.gz)" || fail "there is no archive in $packages"

# A row of the table: what was tried, how it ended, how long it took.
try() {
    what="$1"
    shift
    begin=$(date +%s.%N)
    if "$@" >"$root/last.log" 2>&1; then
        word=ok
    else
        word=FAILED
        failed=1
        cat "$root/last.log" >&2
    fi
    printf '%-56s %-6s %7.1f s\n' "$what" "$word" "$(echo "$(date +%s.%N) - $begin" | awk '{ print $1 - $3 }')"
}

# Without a network, in the system of that folder; the display is one without a screen.
inside() {
    user="$1"
    shift
    unshare --net --mount --pid --fork --kill-child sh -c '
        mount --bind /dev "$0/dev" && mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/tmp"
        user="$1"; shift
        exec chroot "$0" /usr/sbin/runuser -u "$user" -- "$@"' "$root/system" "$user" "$@"
}

# The window must come up, and end when the system asks it to.
window='
    Xvfb :9 -screen 0 1280x900x24 >/dev/null 2>&1 & display=$!
    export DISPLAY=:9 XDG_RUNTIME_DIR="$HOME"
    for _ in $(seq 200); do xdotool getmouselocation >/dev/null 2>&1 && break; sleep 0.05; done
    "$1" & program=$!
    begin=$(date +%s%N)
    until xdotool search --onlyvisible --name "^Safelight" >/dev/null 2>&1; do
        kill -0 $program || exit 1
        [ $(($(date +%s%N) - begin)) -lt 60000000000 ] || exit 1
        sleep 0.01
    done
    echo "window after $((($(date +%s%N) - begin) / 1000000)) ms"
    kill -TERM $program
    (sleep 20; kill -KILL $program) 2>/dev/null & late=$!
    wait $program
    [ $? != 137 ] || exit 1
    kill $late $display'

video="cd && \"\$1\" generate --prompt 'a red hot-air balloon rises over the hills' --out $video_file && test -s $video_file"

# What distributions with rpm do, in this system. What it requires is looked for by names that Debian does not have.
with_rpm() {
    rpm --root "$root/system" --dbpath /var/lib/rpm "$@"
}

if [ ! -x "$root/system/usr/bin/Xvfb" ]; then
    echo "making a minimal Debian in $root/system"
    mmdebstrap --variant=minbase --include=xvfb,xdotool,mesa-vulkan-drivers,libvulkan1,libgl1,libegl1,libfontconfig1,libx11-xcb1,libxcursor1,libxi6,libxrandr2,libxkbcommon-x11-0,libwayland-client0,libdbus-1-3 \
        bookworm "$root/system" >"$root/mmdebstrap.log" 2>&1 || fail "mmdebstrap fails, see $root/mmdebstrap.log"
    chroot "$root/system" useradd --create-home someone
fi
# Debian's Vulkan drivers bring a bare Python along, for a script of theirs.
for program in rustc cargo gcc cc pip pip3; do
    ! chroot "$root/system" sh -c "command -v $program" >/dev/null || fail "the minimal system has $program"
done
rm -rf "$root/system/srv/safelight.deb" "$root/system/home/someone/archive"
mkdir -p "$root/system/srv" "$root/system/home/someone/archive"
cp "$deb" "$root/system/srv/safelight.deb"
cp "$archive" "$root/system/home/someone/archive/safelight.tar.gz"
chroot "$root/system" chown -R someone:someone /home/someone/archive

no_program_in_usr="test ! -e /usr/bin/safelight && test ! -e /usr/lib/safelight && test -s ~/$video_file && rm ~/$video_file"

ls -l "$deb" "$rpm" "$archive" | awk '{ printf "%8.1f MiB  %s\n", $5 / 1048576, $NF }'
try "install the .deb" inside root dpkg -i /srv/safelight.deb
try "the first video, on the command line" inside someone sh -c "$video" sh safelight
try "the window opens and ends" inside someone sh -c "$window" sh safelight
grep "^window after" "$root/last.log"
try "man page and completions are there" inside root sh -c \
    'test -s /usr/share/man/man1/safelight-generate.1.gz && test -s /usr/share/bash-completion/completions/safelight'
try "remove it" inside root dpkg -r safelight
try "no program is left, the video is" inside someone sh -c \
    "$no_program_in_usr"
rm -f "$root/system/var/lib/rpm/"*
with_rpm --initdb
try "install the .rpm" with_rpm --install --nodeps "$rpm"
try "its files are as they were packed" with_rpm --verify --nodeps safelight
try "the first video, on the command line" inside someone sh -c "$video" sh safelight
try "the window opens and ends" inside someone sh -c "$window" sh safelight
grep "^window after" "$root/last.log"
try "remove it" with_rpm --erase safelight
try "no program is left, the video is" inside someone sh -c "$no_program_in_usr"
try "unpack the archive as an ordinary user" inside someone sh -c 'cd ~/archive && tar -xzf safelight.tar.gz'
try "a video from where it is unpacked" inside someone sh -c "set -- ~/archive/safelight-*/bin/safelight; $video"
try "install it for that user" inside someone sh -c '~/archive/safelight-*/install.sh && rm -r ~/archive/safelight-*/lib'
try "a video from there" inside someone sh -c "$video" sh /home/someone/.local/bin/safelight
try "the window opens and ends" inside someone sh -c "$window" sh /home/someone/.local/bin/safelight
grep "^window after" "$root/last.log"
try "remove it" inside someone sh -c '~/archive/safelight-*/install.sh --remove'
try "no program is left, the video is" inside someone sh -c \
    "test ! -e ~/.local/bin/safelight && test ! -e ~/.local/lib/safelight && test -s ~/$video_file"
exit $failed
