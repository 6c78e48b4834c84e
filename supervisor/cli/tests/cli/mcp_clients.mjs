// Official clients of MCP against `fanin mcp`, in each way in which they begin a session. Run by mcp_clients.rs:
// node mcp_clients.mjs FANIN FOLDER, where FOLDER has their packages. It ends with 0 where all is as it should be.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const [fanin, folder] = process.argv.slice(2);

// Modules of packages that lie in another folder.
const load = async (name, ...path) => {
    const exported = JSON.parse(readFileSync(join(folder, "node_modules", name, "package.json"))).exports;
    const key = path.length ? `./${path.join("/")}` : ".";
    const entry = exported[key] ?? exported["./*"];
    const named = (entry) => (typeof entry === "string" ? entry : named(entry.import ?? entry.node ?? entry.default));
    const file = named(entry).replace("*", path.join("/"));
    return import(pathToFileURL(join(folder, "node_modules", name, file)));
};

const first = await load("@modelcontextprotocol/sdk", "client", "index.js");
const firstStdio = await load("@modelcontextprotocol/sdk", "client", "stdio.js");
const second = await load("@modelcontextprotocol/client");
const secondStdio = await load("@modelcontextprotocol/client", "stdio");

const ways = [
    ["sdk 1", first, firstStdio, {}, true],
    ["client 2", second, secondStdio, {}, false],
    ["client 2, auto", second, secondStdio, { versionNegotiation: { mode: "auto" } }, false],
    ["client 2, 2026-07-28", second, secondStdio, { versionNegotiation: { mode: { pin: "2026-07-28" } } }, false],
];

const launch = (task) => ({ name: "subagent", arguments: task });

for (const [way, { Client }, { StdioClientTransport }, options, asksForSchema] of ways) {
    const said = (result) => {
        assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent, way);
        return result.structuredContent;
    };
    const transport = new StdioClientTransport({ command: fanin, args: ["mcp"], env: { ...process.env } });
    const client = new Client({ name: "fanin-tests", version: "1" }, options);
    await client.connect(transport);
    const call = (request, options) => client.callTool(request, ...(asksForSchema ? [undefined, options] : [options]));

    const { tools } = await client.listTools();
    assert.equal(tools.length, 7, way);

    const both = { name: "task_parallel", arguments: { tasks: [{ shell: "echo a" }, { shell: "exit 3" }] } };
    const result = said(await call(both)).results[0];
    assert.deepEqual(result.tasks.map((task) => [task.output, task.exit_code]), [["a\n", 0], ["", 3]], way);

    // Cancelled in the middle: its job is stopped, and the next call tells what came of it.
    const abort = new AbortController();
    const cancelled = call(launch({ shell: "touch begun; exec sleep 100" }), { signal: abort.signal });
    for (let open = []; open.length === 0;) {
        open = said(await call({ name: "jobs", arguments: { status: "running" } })).jobs;
    }
    abort.abort("enough");
    await assert.rejects(cancelled, way);
    const over = said(await call({ name: "wait_for_subagents", arguments: {} }));
    assert.equal(over.error, undefined, way);
    const told = [...(over.results ?? []), ...(over.over_since ?? [])];
    assert.deepEqual(told.map(({ tasks: [task] }) => [task.status, task.cause]), [["cancelled", "user"]], way);

    const refused = await call(launch({ agent: "nobody", prompt: "go" }));
    assert.equal(refused.isError, true, way);
    assert.match(said(refused).error.message, /there is no agent `nobody`; there are claude, codex, opencode/, way);

    // Disconnected with a job in the background: the server ends by itself, not by a signal of its client.
    said(await call(launch({ shell: "exec sleep 100", background: true })));
    const begun = Date.now();
    await client.close();
    assert.ok(Date.now() - begun < 2000, `${way}: ${Date.now() - begun} ms`);
    console.log(`${way}: ok`);
}
