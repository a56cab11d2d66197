// Makes calls by the client that openapi-generator made for TypeScript, compiled. Arguments: its folder, the server, a
// token; the calls come by stdin. Prints what came of each.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, url, token] = process.argv.slice(2);
const client = await import(pathToFileURL(`${folder}/index.js`));
const configuration = new client.Configuration({ basePath: url, accessToken: token });
const plain = (name) => name.toLowerCase().replace(/[^a-z0-9]/g, "");
const camel = (name) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());

async function call(wish) {
  const noun = Object.keys(client).find((name) => plain(name) === `${plain(wish.tag)}api`);
  const api = new client[noun](configuration);
  const verbs = Object.getOwnPropertyNames(Object.getPrototypeOf(api));
  const verb = verbs.find((name) => plain(name) === `${plain(wish.operation)}raw`);
  const given = Object.fromEntries(Object.entries(wish.arguments).map(([name, value]) => [camel(name), value]));
  if (wish.body) {
    const [model, value] = wish.body;
    const read = client[`${model}FromJSON`];
    given[read ? camel(wish.parameter) : "body"] = read ? read(value) : new Blob([value]);
  }
  const answer = await api[verb](given);
  return { tag: wish.tag, status: answer.raw.status, read: typeof (await answer.value()) };
}

const answers = [];
for (const wish of JSON.parse(readFileSync(0, "utf8"))) answers.push(await call(wish));
console.log(JSON.stringify(answers));
