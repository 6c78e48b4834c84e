#!/bin/sh
# Installs opencode, of the version whose store is known, below the folder that is named, and prints where its program
# is: FANIN_OPENCODE=$(tests/opencode.sh target/agents). Needs npm and the network; the tests with it need neither.
set -eu
folder="$1"
case "$(uname -m)" in
x86_64) machine=x64 ;;
aarch64) machine=arm64 ;;
*) echo "there is no opencode for $(uname -m)" >&2 && exit 1 ;;
esac
mkdir -p "$folder"
folder="$(cd "$folder" && pwd)"
# The program is in a package for this machine; what the scripts of the packages would do is not needed.
npm install --no-fund --no-audit --ignore-scripts --prefix "$folder" opencode-ai@1.18.33 >&2
echo "$folder/node_modules/opencode-linux-$machine/bin/opencode"
