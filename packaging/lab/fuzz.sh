#!/usr/bin/env bash
# Fuzzes one reader: packaging/lab/fuzz.sh READER [libFuzzer options, such as -max_total_time=600].
# New inputs are kept in target/fuzz/corpus, failing files as target/fuzz/READER-crash-*.
set -euo pipefail
reader=${1:?usage: fuzz.sh READER [libFuzzer options]}
shift
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
work=$root/target/fuzz
mkdir -p "$work/corpus/$reader"
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
RUSTFLAGS=$coverage cargo build --features fuzz --bin fuzz --target x86_64-unknown-linux-gnu --target-dir "$work/build"
# Without PATH no other program, such as ffmpeg, is started.
exec env -i HOME="$work" SAFELIGHT_FUZZ_READER="$reader" "$work/build/x86_64-unknown-linux-gnu/debug/fuzz" \
  "$work/corpus/$reader" "$root/tests/fixtures/hostile/$reader" \
  -artifact_prefix="$work/$reader-" -rss_limit_mb=4096 -timeout=30 -max_len=65536 "$@"
