#!/usr/bin/env bash
# Jobs over a real sshd on this machine, with another home in the place of another computer: what must work, every way
# in which a connection fails, and connections killed at random moments. Needs root, openssh-server and a built
# Safelight with its libtorch. Usage: ssh.sh [NUMBER OF KILLS]
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
kills=${1:-20}
work=$(mktemp -d /tmp/safelight-ssh.XXXXXX)
bin=${SAFELIGHT_BIN:-$here/target/debug}
box=$work/box laptop=$work/laptop model=$work/box/data/safelight/models/tiny
mkdir -p "$box/data/safelight/models" "$laptop" /run/sshd
cp -r "$here/tests/fixtures/wan/pipeline" "$model"
export SAFELIGHT_ASSETS=$here/assets SAFELIGHT_LIBTORCH=${SAFELIGHT_LIBTORCH:-$here/.libtorch/lib} OMP_NUM_THREADS=1

for key in host other client; do ssh-keygen -q -t ed25519 -N '' -f "$work/$key"; done
cat > "$work/there" <<END
#!/bin/sh
export HOME=$box XDG_CONFIG_HOME=$box/config XDG_DATA_HOME=$box/data XDG_CACHE_HOME=$box/cache
export SAFELIGHT_ASSETS=$SAFELIGHT_ASSETS SAFELIGHT_LIBTORCH=$SAFELIGHT_LIBTORCH OMP_NUM_THREADS=1
export PATH=\$(cat $work/path):/usr/bin:/bin
cd \$HOME
exec sh -c "\$SSH_ORIGINAL_COMMAND"
END
chmod 755 "$work" "$work/there"
echo "$bin" > "$work/path"
cat > "$work/sshd_config" <<END
Port 7922
ListenAddress 127.0.0.1
HostKey $work/host
AuthorizedKeysFile $work/client.pub
PidFile $work/sshd.pid
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
ForceCommand $work/there
END
cat > "$work/ssh_config" <<END
Host box
  HostName 127.0.0.1
  Port 7922
  User root
  IdentityFile $work/client
  IdentitiesOnly yes
  UserKnownHostsFile $work/known
Host refused
  HostName 127.0.0.1
  Port 7923
END
printf '#!/bin/sh\nexec ssh -F %s/ssh_config "$@"\n' "$work" > "$work/ssh"
chmod 755 "$work/ssh"
know() { echo "[127.0.0.1]:7922 $(cut -d' ' -f1,2 "$work/$1.pub")" > "$work/known"; }
know host
/usr/sbin/sshd -f "$work/sshd_config" -E "$work/sshd.log" || exit 1
sleep 1

here_run() { # a command on the laptop
    HOME=$laptop XDG_CONFIG_HOME=$laptop/config XDG_DATA_HOME=$laptop/data XDG_CACHE_HOME=$laptop/cache \
        SAFELIGHT_SSH=$work/ssh "$bin/safelight" "$@"
}
worker() { # process of the worker there
    for process in /proc/[0-9]*; do
        tr '\0' ' ' 2>/dev/null < "$process/cmdline" | grep -q 'worker --host' || continue
        tr '\0' '\n' < "$process/environ" 2>/dev/null | grep -qx "HOME=$box" && basename "$process"
    done
}
sessions() { ps -o pid= --ppid "$(cat "$work/sshd.pid")"; }
cleanup() {
    kill -9 $(worker) $(sessions) "$(cat "$work/sshd.pid")" 2>/dev/null
    umount "$box/data/safelight/remote" 2>/dev/null
    rm -rf "$work"
}
trap cleanup EXIT
job() { # OUT STEPS
    here_run generate --json --on box --model "$model" --seed 3 --prompt fox --width 64 --height 32 --frames 17 \
        --steps "$2" --guidance 2 --out "$laptop/$1"
}
failed=0
expect() { # WHAT WORDS TEXT
    if grep -qF -- "$2" <<< "$3"; then echo "ok    $1"; else echo "FAIL  $1: $3"; failed=1; fi
}

expect "list models" "$model" "$(here_run computers check box 2>&1)"
expect "generate" '"finished"' "$(job whole.mp4 30 2>&1)"
for number in $(seq "$kills"); do
    rm -f "$work/events"
    job cut.mp4 30 > "$work/events" 2>&1 &
    client=$!
    until [ -s "$work/events" ] || ! kill -0 $client 2>/dev/null; do sleep 0.01; done
    moment=$(awk -v seed="$RANDOM$number" 'BEGIN { srand(seed); print rand() * 4 }')
    sleep "$moment"
    kill -9 $(sessions) 2>/dev/null
    wait $client
    same=different; cmp -s "$laptop/whole.mp4" "$laptop/cut.mp4" && same=same
    expect "kill $number after $moment s" same "$same $(tail -1 "$work/events")"
    rm -f "$laptop/cut.mp4"
done

job lost.mp4 1000 > "$work/events" 2>&1 &
until grep -q '"step"' "$work/events" || ! kill -0 $! 2>/dev/null; do sleep 0.05; done
kill -9 $(worker)
wait $!
expect "killed worker" "the worker ended while the job ran" "$(tail -1 "$work/events")"
expect "the next job after it" '"finished"' "$(job next.mp4 2 2>&1)"

know other
expect "changed host key" "has another host key than before" "$(here_run computers check box 2>&1)"
: > "$work/known"
expect "unknown host key" "has a host key that this computer does not know yet" "$(here_run computers check box 2>&1)"
know host
mv "$work/client" "$work/gone"
expect "no key" "accepts none of your ssh keys" "$(here_run computers check box 2>&1)"
mv "$work/gone" "$work/client"
expect "refused" "refuses ssh connections" "$(here_run computers check refused 2>&1)"
expect "unknown name" "is not known by this name" "$(here_run computers check no-such-host.invalid 2>&1)"

echo "$work/nothing" > "$work/path"
expect "no Safelight there" "has no Safelight" "$(here_run computers check box 2>&1)"
expect "install" "Safelight" "$(here_run computers install box 2>&1)"
expect "installed" "$model" "$(here_run computers check box 2>&1)"
rm -rf "$box/.local"
mkdir "$work/other-version"
cat > "$work/other-version/safelight" <<'END'
#!/usr/bin/env python3
import json, struct, sys
hello = json.dumps({"Hello": {"protocol": 7, "version": "0.9.0"}}).encode()
sys.stdout.buffer.write(struct.pack("<II", len(hello), 0) + hello)
END
chmod 755 "$work/other-version/safelight"
echo "$work/other-version" > "$work/path"
expect "other version" "has Safelight 0.9.0 (protocol 7)" "$(here_run computers check box 2>&1)"
echo "$bin" > "$work/path"

kill -9 $(worker)
rm -rf "$box/data/safelight/remote" && mkdir "$box/data/safelight/remote"
mount -t tmpfs -o size=1m tmpfs "$box/data/safelight/remote"
python3 - "$work/big.png" <<'END'
import os, struct, sys, zlib
side = 1000
rows = b"".join(b"\0" + os.urandom(3 * side) for _ in range(side))
chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
open(sys.argv[1], "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
END
expect "full disk, input" "No space left" "$(here_run generate --json --on box --model "$model" --seed 3 --prompt fox \
    --image "$work/big.png" --width 64 --height 32 --frames 5 --steps 2 --out "$laptop/full.mp4" 2>&1 | tail -1)"
rm -rf "$box/data/safelight/remote/store"/*
head -c 1000000 /dev/zero > "$box/data/safelight/remote/fill" 2>/dev/null
expect "full disk, job" '"kind":"disk"' "$(job full.mp4 2 2>&1 | tail -1)"
exit $failed
