#!/bin/sh
# Tries `safelight serve` and `safelight mcp` with real clients, on the model that comes with Safelight and the CPU:
# the openai package, MCP's own client and conformance suite, schemathesis over the OpenAPI document, Chromium on the
# page, and many clients that misbehave. Prints a table. Exits with 1 where anything is not as it should be, and with 3 where a client cannot be installed.
#
#     packaging/try-server/run.sh [FOLDER WITH SAFELIGHT AND ITS ENGINE [FOLDER FOR THE CLIENTS]]
#
# Needs root or installed Debian packages (python3-venv, chromium, chromium-driver, npm), and the registries of Debian,
# Python and npm, once: the clients stay in their folder.
set -eu

here="$(cd "$(dirname "$0")" && pwd)"
programs="$(cd "${1:-target/debug}" && pwd)"
mkdir -p "${2:-target/clients}"
clients="$(cd "${2:-target/clients}" && pwd)"

fail() {
    echo "error: $1" >&2
    exit "${2:-1}"
}

for program in safelight safelight-engine; do
    [ -x "$programs/$program" ] || fail "there is no $program in $programs: cargo xtask test builds it"
done

missing=""
command -v chromium >/dev/null || missing="$missing chromium"
command -v chromedriver >/dev/null || missing="$missing chromium-driver"
command -v npx >/dev/null || missing="$missing npm"
python3 -c "import ensurepip" 2>/dev/null || missing="$missing python3-venv"
if [ -n "$missing" ]; then
    [ "$(id -u)" = 0 ] || fail "install the packages$missing"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    { apt-get update -q && apt-get install -qy --no-install-recommends $missing; } >"$clients/apt.log" 2>&1 ||
        fail "the packages$missing could not be installed: see $clients/apt.log" 3
fi

wanted="$here/requirements.txt"
if ! cmp -s "$wanted" "$clients/venv/requirements.txt"; then
    { python3 -m venv "$clients/venv" && "$clients/venv/bin/pip" install -q -r "$wanted"; } >"$clients/pip.log" 2>&1 ||
        fail "the Python clients could not be installed: see $clients/pip.log" 3
    cp "$wanted" "$clients/venv/requirements.txt"
fi

# The suite needs Node 22, Debian 12 has 18.
node="$clients/node"
if ! [ -x "$node/node_modules/.bin/conformance" ]; then
    npm install --silent --no-fund --no-audit --prefix "$node" node@22 @modelcontextprotocol/conformance@0.1 \
        >"$clients/npm.log" 2>&1 || fail "MCP's conformance suite could not be installed: see $clients/npm.log" 3
fi

export PATH="$node/node_modules/.bin:$clients/venv/bin:$PATH"
cd "$here"
exec python3 -m clients "$programs"
