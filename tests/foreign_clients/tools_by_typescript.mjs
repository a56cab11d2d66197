// Lists and calls the tools of a server by the TypeScript client of MCP. Arguments: the server's command. The calls come
// by stdin, as [name, arguments]. Prints what came.
import { readFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "test", version: "1" });
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
const { tools } = await client.listTools();
const answers = [];
for (const [name, given] of JSON.parse(readFileSync(0, "utf8"))) {
  answers.push(await client.callTool({ name, arguments: given }, undefined, { timeout: 120_000 }));
}
console.log(JSON.stringify({ server: client.getServerVersion().name, tools, answers }));
await client.close();
