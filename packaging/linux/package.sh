#!/bin/sh
# Lays out what a release installs and packs it: an archive, a .deb and an .rpm, which hold the same files.
# `cargo xtask package` calls it.
#
#     VERSION=… RECOMMENDS="a, b" package.sh BUILT LIBTORCH OUT EXECUTABLE…
#
# BUILT has the executables, the first of which is the program; OUT has THIRD-PARTY.txt and gets the packages.
# RECOMMENDS: packages of Debian for the window.
set -eu

# The newest glibc that a release may need: that of Ubuntu 22.04 and Fedora 36. Debian 12 has a newer one.
newest=2.35
summary="Makes images and videos on your own GPU"
description="Type a prompt or drop an image, and watch it develop: Wan, FLUX.1 and FramePack, natively, without Python.
It finds the models that ComfyUI and other programs keep, and fits them into the memory that there is."
app=org.safelight.Safelight

fail() {
    echo "error: $1" >&2
    exit 1
}

built="$1" libtorch="$2" out="$3"
shift 3
repository="$(cd "$(dirname "$0")/../.." && pwd)"

glibc=2.17
for executable; do
    # The variable of the engine's fault injection.
    ! grep -q SAFELIGHT_ENGINE_FAULT "$built/$executable" ||
        fail "expected a release without fault injection, found SAFELIGHT_ENGINE_FAULT in $built/$executable"
    symbols="$(objdump -T "$built/$executable")" || fail "install the package binutils"
    needed="$(echo "$symbols" | grep -o 'GLIBC_[0-9][0-9.]*' | cut -d_ -f2 | sort -uV | tail -n 1)"
    [ -n "$needed" ] || fail "objdump names no glibc in $built/$executable"
    glibc="$(printf '%s\n' "$glibc" "$needed" | sort -V | tail -n 1)"
    [ "$(printf '%s\n' "$newest" "$glibc" | sort -V | tail -n 1)" = "$newest" ] ||
        fail "$built/$executable needs glibc $glibc, and a release may need $newest: build it on an older system"
done

# The files, as below /usr or ~/.local.
tree="$out/tree"
program="$tree/lib/safelight"
share="$tree/share"
texts="$share/doc/safelight"
mkdir -p "$program/runtime" "$tree/bin" "$texts" "$share/applications" "$share/metainfo" "$share/man/man1"
for executable; do
    cp -L "$built/$executable" "$program"
    case "$executable" in
    *-engine*) ;;
    *) ln -s "../lib/safelight/$executable" "$tree/bin/$executable" ;;
    esac
done
cp -RL "$repository/models.toml" "$repository/assets" "$program"
cp -RL "$libtorch/lib" "$libtorch/licenses" "$libtorch/build-version" "$program/runtime"
for text in README.md docs CHANGELOG.md LICENSE-MIT LICENSE-APACHE; do
    cp -RL "$repository/$text" "$texts"
done
cp "$out/THIRD-PARTY.txt" "$texts"
cp "$repository/packaging/linux/$app.desktop" "$share/applications"
cp "$repository/packaging/linux/$app.metainfo.xml" "$share/metainfo"
icon() {
    mkdir -p "$share/icons/hicolor/$2/apps"
    cp "$repository/assets/icons/$1" "$share/icons/hicolor/$2/apps/$app.${1##*.}"
}
for size in 16 24 32 48 64 128 256 512; do
    icon "safelight-$size.png" "${size}x$size"
done
icon safelight.svg scalable
# The program makes manual and completions from its own arguments.
"$program/$1" manual "$share/man/man1"
gzip -9n "$share/man/man1/"*
completions() {
    mkdir -p "$(dirname "$share/$2")"
    "$program/safelight" completions "$1" >"$share/$2"
}
completions bash bash-completion/completions/safelight
completions zsh zsh/site-functions/_safelight
completions fish fish/vendor_completions.d/safelight.fish
# Whatever umask it was built under, everybody may read and nobody else may write.
chmod -R u=rwX,go=rX "$tree"

# The archive: the tree, which runs where it is unpacked, and a script that installs it for one user.
name="safelight-$VERSION-linux-x86_64"
archive="$out/$name.tar.gz"
cp -al "$tree" "$out/$name"
cp "$repository/packaging/linux/install.sh" "$out/$name"
tar -C "$out" --owner=0 --group=0 --sort=name -czf "$archive" "$name"

mkdir -p "$out/deb/DEBIAN"
cp -al "$tree" "$out/deb/usr"
cat >"$out/deb/usr/share/doc/safelight/copyright" <<TEXT
Safelight is under the MIT licence or the Apache licence 2.0, at your choice: LICENSE-MIT and LICENSE-APACHE.
The licences of all that it contains are in THIRD-PARTY.txt, those of libtorch in
/usr/lib/safelight/runtime/licenses.
TEXT
cat >"$out/deb/DEBIAN/control" <<TEXT
Package: safelight
Version: $VERSION
Architecture: amd64
Maintainer: The Safelight developers <safelight@localhost>
Installed-Size: $(du -sk --apparent-size "$out/deb/usr" | cut -f1)
Section: graphics
Priority: optional
Depends: libc6 (>= $glibc), libgcc-s1, libstdc++6
Recommends: $RECOMMENDS
Description: $summary
$(echo "$description" | sed 's/^/ /')
TEXT
deb="$out/safelight_${VERSION}_amd64.deb"
dpkg-deb --root-owner-group -Zxz --build "$out/deb" "$deb"

# The files are there already: nothing is prepared, built, stripped or compressed. Names of packages differ between
# distributions, so these are by what they provide.
mkdir -p "$out/rpm/root"
cat >"$out/rpm/safelight.spec" <<TEXT
Name: safelight
Version: $VERSION
Release: 1
Summary: $summary
License: MIT OR Apache-2.0
AutoReqProv: no
Requires: glibc >= $glibc
Requires: libgcc
Requires: libstdc++
Recommends: vulkan-loader, mesa-vulkan-drivers, libxkbcommon-x11, fontconfig
%description
$description
%global __os_install_post %{nil}
%global debug_package %{nil}
%install
cp -al '$tree' %{buildroot}/usr
%clean
true
%files
/usr/bin/*
/usr/lib/safelight
/usr/share/applications/*
/usr/share/bash-completion/completions/*
/usr/share/doc/safelight
/usr/share/fish/vendor_completions.d/*
/usr/share/icons/hicolor/*/apps/*
/usr/share/man/man1/*
/usr/share/metainfo/*
/usr/share/zsh/site-functions/*
TEXT
rpmbuild -bb --quiet --target x86_64 --define "_topdir $out/rpm" --define "_rpmdir $out" \
    --define '_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm' --define '_build_id_links none' \
    --define '_binary_payload w6T2.xzdio' --buildroot "$out/rpm/root" "$out/rpm/safelight.spec"
rpm="$out/safelight-$VERSION-1.x86_64.rpm"

ls -l "$archive" "$deb" "$rpm" | awk '{ printf "%8.1f MiB  %s\n", $5 / 1048576, $NF }'
echo "They run where glibc is $glibc or newer."
