#!/usr/bin/env bash
# One job on three computers: two network namespaces with their own addresses, homes and sshd, and this machine. Needs root,
# openssh-server, iproute2 and a built Safelight with its libtorch. Usage: hosts.sh
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d /tmp/safelight-hosts.XXXXXX)
bin=${SAFELIGHT_BIN:-$here/target/debug}
laptop=$work/laptop net=10.213.77
mkdir -p "$laptop/somewhere" /run/sshd
export SAFELIGHT_ASSETS=$here/assets SAFELIGHT_LIBTORCH=${SAFELIGHT_LIBTORCH:-$here/.libtorch/lib} OMP_NUM_THREADS=1
cp -r "$here/tests/fixtures/wan/pipeline" "$laptop/somewhere/tiny"

cleanup() {
    for box in 1 2; do
        ip netns pids "slbox$box" 2>/dev/null | xargs -r kill -9
        ip netns del "slbox$box"
    done
    ip link del slbridge
    rm -rf "$work"
} 2>/dev/null
trap cleanup EXIT

ip link add slbridge type bridge && ip addr add $net.1/24 dev slbridge && ip link set slbridge up || exit 1
for key in host client; do ssh-keygen -q -t ed25519 -N '' -f "$work/$key"; done
chmod 755 "$work"
for box in 1 2; do
    home=$work/box$box address=$net.$((box + 1)) inside="ip netns exec slbox$box"
    mkdir -p "$home/data/safelight/models"
    cp -r "$here/tests/fixtures/wan/pipeline" "$home/data/safelight/models/tiny"
    ip netns add slbox$box
    ip link add slveth$box type veth peer name eth0 netns slbox$box
    ip link set slveth$box master slbridge up
    $inside ip addr add $address/24 dev eth0
    $inside ip link set eth0 up
    $inside ip link set lo up
    cat > "$work/there$box" <<END
#!/bin/sh
export HOME=$home XDG_CONFIG_HOME=$home/config XDG_DATA_HOME=$home/data XDG_CACHE_HOME=$home/cache
export SAFELIGHT_ASSETS=$SAFELIGHT_ASSETS SAFELIGHT_LIBTORCH=$SAFELIGHT_LIBTORCH OMP_NUM_THREADS=1
export PATH=$bin:/usr/bin:/bin
cd \$HOME
exec sh -c "\$SSH_ORIGINAL_COMMAND"
END
    chmod 755 "$work/there$box"
    cat > "$work/sshd_config$box" <<END
ListenAddress $address
HostKey $work/host
AuthorizedKeysFile $work/client.pub
PidFile $work/sshd$box.pid
StrictModes no
PermitRootLogin yes
ForceCommand $work/there$box
END
    $inside /usr/sbin/sshd -f "$work/sshd_config$box" -E "$work/sshd$box.log" || exit 1
    cat >> "$work/ssh_config" <<END
Host box$box
  HostName $address
  User root
  IdentityFile $work/client
  IdentitiesOnly yes
  UserKnownHostsFile $work/known
END
    echo "$address $(cut -d' ' -f1,2 "$work/host.pub")" >> "$work/known"
done
printf '#!/bin/sh\nexec ssh -F %s/ssh_config "$@"\n' "$work" > "$work/ssh"
chmod 755 "$work/ssh"
sleep 1

here_run() { # a command on the laptop
    HOME=$laptop XDG_CONFIG_HOME=$laptop/config XDG_DATA_HOME=$laptop/data XDG_CACHE_HOME=$laptop/cache \
        SAFELIGHT_SSH=$work/ssh "$bin/safelight" "$@"
}
job() { # OUT STEPS HOSTS...
    local out=$1 steps=$2
    shift 2
    here_run generate --json --device cpu --model "$laptop/somewhere/tiny" --seed 3 --prompt fox --width 64 --height 32 \
        --frames 17 --steps "$steps" --guidance 2 --out "$laptop/$out" "$@"
}
failed=0
expect() { # WHAT WORDS TEXT
    if grep -qF -- "$2" <<< "$3"; then echo "ok    $1"; else echo "FAIL  $1: $3"; failed=1; fi
}
expect "the exchange is measured" "devices sends" \
    "$(here_run plan --device cpu --model "$laptop/somewhere/tiny" --hosts box1,box2 2>&1)"
expect "a job alone" finished "$(job one.mp4 2 2>&1)"
expect "a job on three computers" finished "$(job three.mp4 2 --hosts box1,box2 2>&1)"
expect "two devices on each" finished "$(job six.mp4 2 --hosts box1,box2 --devices 2 2>&1)"
job lost.mp4 400 --hosts box1,box2 > "$work/lost" 2>&1 &
until grep -qE '"step":3[,}]' "$work/lost" || ! kill -0 $! 2>/dev/null; do sleep 0.2; done
ip netns exec slbox2 ip link set eth0 down
sleep 5
ip netns exec slbox2 ip link set eth0 up
wait $!
expect "a job whose network was gone for five seconds" finished "$(cat "$work/lost")"
job lost2.mp4 400 --hosts box1,box2 > "$work/lost" 2>&1 &
until grep -qE '"step":3[,}]' "$work/lost" || ! kill -0 $! 2>/dev/null; do sleep 0.2; done
ip netns pids slbox2 | xargs kill -9
wait $!
expect "a job whose computer was lost says so" box2 "$(tail -1 "$work/lost")"
sleep 2
left=$(pgrep -f "safelight-engine|worker --rank" | while read -r pid; do
    tr '\0' '\n' < /proc/$pid/environ 2>/dev/null | grep -q "^HOME=$work" && echo "$pid"; done)
expect "no process is left" "none" "${left:-none}"
exit $failed
