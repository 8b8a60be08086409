// A viewer of /openapi.json: every request, with its parameters, body and answers, and the JSON of both.
import { el, show } from "./dom.js";

const METHODS = ["get", "put", "post", "delete"];

/** Text with `code` between backquotes. */
const prose = (text = "") => text.split("`").map((part, place) => (place % 2 ? el("code", {}, part) : part));

/** The short name of a type: string, integer, a link to a model, or several of them. */
function type(schema = {}) {
  if (schema.$ref) {
    const name = schema.$ref.split("/").at(-1);
    return el("a", { href: `#${name}` }, name);
  }
  const several = schema.anyOf ?? schema.oneOf;
  if (several) return several.flatMap((one, place) => [place > 0 && " or ", type(one)]);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array") return ["list of ", type(schema.items)];
  if (typeof schema.additionalProperties === "object") return ["object of ", type(schema.additionalProperties)];
  return schema.format ? `${schema.type} (${schema.format})` : (schema.type ?? "anything");
}

function table(caption, heads, rows) {
  if (rows.length === 0) return null;
  return el(
    "table",
    {},
    el("caption", {}, caption),
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, rows.map(([first, ...cells]) =>
      el("tr", {}, el("th", { scope: "row" }, first), cells.map((cell) => el("td", {}, cell))),
    )),
  );
}

const types = (content = {}) =>
  Object.entries(content).flatMap(([kind, { schema }], place) => [place > 0 && el("br"), `${kind}: `, type(schema)]);

function operation(path, method, found) {
  const parameters = (found.parameters ?? []).map((one) => [
    [el("code", {}, one.name), one.required ? "" : " (optional)"],
    one.in,
    type(one.schema),
    prose(one.description ?? one.schema.description),
  ]);
  const answers = Object.entries(found.responses).map(([status, one]) => [status, prose(one.description), types(one.content)]);
  return el(
    "details",
    { class: "card", id: `${method}-${path}` },
    el("summary", {}, el("b", { class: `method ${method}` }, method.toUpperCase()), " ", el("code", {}, path), ` ${found.summary}`),
    el("p", {}, prose(found.description)),
    el("p", { class: "note" }, found.security ? "It needs a token, in the header Authorization: Bearer tv_…" : "It needs no token."),
    table("Parameters", ["name", "in", "type", "meaning"], parameters),
    found.requestBody && el("p", {}, prose(found.requestBody.description), el("br"), types(found.requestBody.content)),
    table("Answers", ["status", "meaning", "body"], answers),
  );
}

function model(name, schema) {
  const required = schema.required ?? [];
  const rows = Object.entries(schema.properties ?? {}).map(([key, one]) => [
    [el("code", {}, key), required.includes(key) ? "" : " (optional)"],
    type(one),
    prose(one.description),
  ]);
  return el(
    "section",
    { class: "card", id: name },
    el("h3", {}, name),
    el("p", {}, prose(schema.description)),
    table("Keys", ["key", "type", "meaning"], rows),
  );
}

/** The whole document. */
function shown({ info, paths, components }) {
  const tags = new Map();
  for (const [path, operations] of Object.entries(paths))
    for (const method of METHODS.filter((one) => operations[one])) {
      const found = operations[method];
      const [tag] = found.tags ?? ["other"];
      tags.set(tag, [...(tags.get(tag) ?? []), operation(path, method, found)]);
    }
  return [
    el("p", { class: "note" }, `Version ${info.version}. ${info.description}`),
    [...tags].map(([tag, operations]) => [el("h2", {}, tag), operations]),
    el("h2", {}, "JSON"),
    Object.entries(components.schemas).map(([name, schema]) => model(name, schema)),
  ];
}

const main = document.getElementById("main");
try {
  const answer = await fetch(new URL("openapi.json", document.baseURI));
  show(main, shown(await answer.json()));
  document.body.dataset.ready = "true";
} catch {
  show(main, el("p", { class: "card" }, "The collector does not answer. Load this page again."));
  document.body.dataset.ready = "failed";
}
