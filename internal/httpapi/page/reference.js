// Draws /openapi.json. Text only ever goes in as text, never as markup.
"use strict";

const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
};

let spec;
const resolve = (schema) => (schema && schema.$ref ? spec.components.schemas[schema.$ref.split("/").pop()] : schema) || {};

// The one of a choice that has fields, such as an object that may also be null.
const objectOf = (schema) => {
  const known = resolve(schema);
  return (known.oneOf || []).map(resolve).find((one) => one.properties) || known;
};

const typeOf = (schema) => {
  const known = resolve(schema);
  if (known.oneOf) return known.oneOf.map(typeOf).join(" or ");
  let type = [].concat(known.type || "any").join(" or ");
  if ([].concat(known.type).includes("array")) type = "array of " + typeOf(known.items);
  if (known.additionalProperties && known.additionalProperties.type) type = "object of " + typeOf(known.additionalProperties);
  if (known.format) type += " (" + known.format + ")";
  if (known.enum) type += ": " + known.enum.map(String).join(", ");
  return type;
};

// Rows for a schema's fields, nested ones under their path.
const fieldRows = (schema, prefix = "", depth = 0) => {
  const known = resolve(schema);
  const rows = [];
  for (const [name, field] of Object.entries(known.properties || {})) {
    rows.push(make("tr", {},
      make("td", {}, prefix + name),
      make("td", {}, typeOf(field)),
      make("td", {}, field.description || resolve(field).description || "")));
    const isList = [].concat(resolve(field).type).includes("array");
    const inner = objectOf(isList ? resolve(field).items : field);
    if (depth < 4 && inner.properties) rows.push(...fieldRows(inner, prefix + name + (isList ? "[]." : "."), depth + 1));
  }
  return rows;
};

const tableOf = (rows) => (rows.length ? make("table", {}, ...rows) : null);

const contentRows = (content) => Object.entries(content || {}).flatMap(([type, media]) => {
  const rows = fieldRows(media.schema);
  return rows.length ? rows : [make("tr", {}, make("td", {}, type), make("td", {}, media.schema ? typeOf(media.schema) : "bytes"), make("td", {}, ""))];
});

// A request needs few of its fields; an answer has all of its own.
const requiredOf = (content) => Object.values(content || {}).flatMap((media) => resolve(media.schema).required || []);

const drawOperation = (method, path, operation) => {
  const section = make("section", { id: operation.operationId },
    (operation.security || []).some((s) => Object.keys(s).length === 0) ? make("span", { class: "open" }, "no key needed") : null,
    make("h3", {}, make("span", { class: "method " + method }, method.toUpperCase()), path),
    make("p", {}, operation.summary + ". " + (operation.description || "")));
  const parameters = tableOf((operation.parameters || []).map((p) => make("tr", {},
    make("td", {}, p.name),
    make("td", {}, p.in + ", " + typeOf(p.schema)),
    make("td", {}, p.description || ""))));
  if (parameters) section.append(make("h4", {}, "Parameters"), parameters);
  if (operation.requestBody) {
    section.append(make("h4", {}, "Body"));
    if (operation.requestBody.description) section.append(make("p", {}, operation.requestBody.description));
    const needed = requiredOf(operation.requestBody.content);
    if (needed.length) section.append(make("p", {}, "Required: " + needed.join(", ")));
    section.append(tableOf(contentRows(operation.requestBody.content)));
  }
  section.append(make("h4", {}, "Answers"));
  for (const [status, response] of Object.entries(operation.responses)) {
    const rows = Number(status) < 400 ? contentRows(response.content) : [];
    const title = status + " " + response.description;
    section.append(rows.length ? make("details", {}, make("summary", {}, title), tableOf(rows)) : make("div", {}, title));
  }
  return section;
};

const draw = () => {
  document.getElementById("about").textContent = spec.info.description + " Version " + (spec.info.version || "unknown") + ".";
  const contents = document.getElementById("contents");
  const operations = document.getElementById("operations");
  for (const tag of spec.tags) {
    contents.append(make("b", {}, tag.name));
    operations.append(make("h2", {}, tag.name));
    for (const [path, item] of Object.entries(spec.paths)) {
      for (const [method, operation] of Object.entries(item)) {
        if (!(operation.tags || []).includes(tag.name)) continue;
        contents.append(make("a", { href: "#" + operation.operationId }, make("span", { class: "method " + method }, method.toUpperCase()), path.replace("/v1", "")));
        operations.append(drawOperation(method, path, operation));
      }
    }
  }
  operations.append(make("h2", {}, "Problems"),
    make("section", {}, make("p", {}, "Every error is answered with application/problem+json, all problems of a request at once."),
      tableOf(fieldRows({ $ref: "#/components/schemas/Error" }))));
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
};

fetch("/openapi.json").then((answer) => answer.json()).then((document) => { spec = document; draw(); })
  .catch((error) => document.getElementById("operations").append("The document could not be read: " + error));
