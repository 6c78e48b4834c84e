#!/bin/sh
# Installs the agents whose stores are known, of the versions that are known, below the folder that is named, and prints
# where their programs are, and those of clients of MCP, for a shell: eval "$(tests/agents.sh target/agents)". Needs npm and
# the network; the tests that run them need neither, but Node.js for the clients and for `claude-agent-acp`.
set -eu
folder="$1"
case "$(uname -m)" in
x86_64) machine=x64 && triple=x86_64-unknown-linux-musl ;;
aarch64) machine=arm64 && triple=aarch64-unknown-linux-musl ;;
*) echo "there are no agents for $(uname -m)" >&2 && exit 1 ;;
esac
mkdir -p "$folder"
folder="$(cd "$folder" && pwd)"
# The programs are in packages for this machine; what the scripts of the packages would do is not needed.
npm install --no-fund --no-audit --ignore-scripts --prefix "$folder" opencode-ai@1.18.33 @openai/codex@0.171.0 \
    @agentclientprotocol/claude-agent-acp@0.49.0 @zed-industries/codex-acp@0.16.0 \
    @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/client@2.4.0 @modelcontextprotocol/inspector@2.12.0 >&2
echo "export FANIN_OPENCODE='$folder/node_modules/opencode-linux-$machine/bin/opencode'"
echo "export FANIN_CODEX='$folder/node_modules/@openai/codex-linux-$machine/vendor/$triple/bin/codex'"
echo "export FANIN_CLAUDE='$folder/node_modules/@anthropic-ai/claude-agent-sdk-linux-$machine/claude'"
echo "export FANIN_CLAUDE_ACP='$folder/node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js'"
echo "export FANIN_CODEX_ACP='$folder/node_modules/@zed-industries/codex-acp-linux-$machine/bin/codex-acp'"
echo "export FANIN_MCP_CLIENTS='$folder'"
