#!/bin/sh
# Installs Safelight for one user, or takes it away again. Results, models and settings are never touched.
set -eu

usage() {
    cat <<TEXT
./install.sh                 install into ~/.local
./install.sh --prefix DIR    install into DIR, such as /usr/local
./install.sh --remove        take it away; with --prefix DIR from there
TEXT
}

fail() {
    echo "error: $1" >&2
    exit 1
}

prefix="${HOME:-}/.local"
action=install
while [ $# -gt 0 ]; do
    case "$1" in
    --prefix)
        [ $# -gt 1 ] || fail "--prefix needs a folder"
        prefix="$2"
        shift
        ;;
    --remove) action=remove ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        exit 2
        ;;
    esac
    shift
done
case "$prefix" in
/*) ;;
*) prefix="$(pwd)/$prefix" ;;
esac
case "$prefix" in
*[\"\$\`%\\\|]*) fail "the name of $prefix has a sign in it that menus cannot hold: choose another with --prefix" ;;
esac
here="$(cd "$(dirname "$0")" && pwd)"
program="$prefix/lib/safelight"
list="$program/installed-files.txt"
desktop=share/applications/org.safelight.Safelight.desktop

# Desktops that have these look for new entries by themselves, a little later, where they fail.
refresh() {
    if command -v update-desktop-database >/dev/null; then
        update-desktop-database -q "$prefix/share/applications" 2>/dev/null || true
    fi
    if command -v gtk-update-icon-cache >/dev/null; then
        gtk-update-icon-cache -qtf "$prefix/share/icons/hicolor" 2>/dev/null || true
    fi
}

remove() {
    while IFS= read -r file; do
        rm -f "$prefix/$file"
    done <"$list"
    rm -rf "$program"
    rmdir "$prefix/share/doc/safelight" 2>/dev/null || true
}

if [ "$action" = remove ]; then
    [ -f "$list" ] || fail "Safelight is not installed in $prefix"
    remove
    refresh
    echo "Safelight is removed from $prefix. Results, models and settings are where they were."
    exit 0
fi

[ -x "$here/lib/safelight/safelight" ] || fail "this script must lie in the unpacked folder of Safelight"
new="$program.new"
rm -rf "$new"
mkdir -p "$prefix/bin" "$prefix/lib" || fail "$prefix cannot be written to: choose another folder with --prefix"
cp -R "$here/lib/safelight" "$new" || {
    rm -rf "$new"
    fail "there is not enough room in $prefix, or it cannot be written to"
}
(cd "$here" && find bin share ! -type d) >"$new/installed-files.txt"
if [ -f "$list" ]; then
    remove
elif [ -e "$program" ]; then
    rm -rf "$new"
    fail "$program is there already and was not made by this script: remove it first"
fi
mv "$new" "$program"
(cd "$here" && find bin share ! -type d) | while IFS= read -r file; do
    mkdir -p "$prefix/$(dirname "$file")"
    cp -P "$here/$file" "$prefix/$file"
done
# The menu starts it also where the folder is on nobody's path.
escaped="$(printf '%s' "$prefix/bin/safelight" | sed 's/[&|\\]/\\&/g')"
sed -e "s|^Exec=safelight|Exec=\"$escaped\"|" -e "s|^TryExec=.*|TryExec=$escaped|" \
    "$here/$desktop" >"$prefix/$desktop"
refresh
echo "Safelight is installed. Start it from the menu, or with $prefix/bin/safelight"
case ":${PATH:-}:" in
*":$prefix/bin:"*) ;;
*) echo "To call it by its name alone, put $prefix/bin on your PATH." ;;
esac
