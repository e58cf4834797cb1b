"use strict";
// The OpenAPI document as a page.

let schemas = {};

function element(kind, text, ...children) {
  const one = document.createElement(kind);
  if (text) one.textContent = text;
  one.append(...children.filter(Boolean));
  return one;
}

function resolved(schema) {
  return schema?.$ref ? schemas[schema.$ref.split("/").pop()] || {} : schema || {};
}

/// `string or null`, `list of JobView`.
function kindOf(schema) {
  if (schema?.$ref) return schema.$ref.split("/").pop();
  const { type, items, anyOf, oneOf, format } = schema || {};
  const several = anyOf || oneOf;
  if (several) return [...new Set(several.map(kindOf))].join(" or ");
  if (schema?.const !== undefined) return JSON.stringify(schema.const);
  if (schema?.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" or ");
  if (type === "array") return `list of ${kindOf(items)}`;
  if (format === "binary") return "file";
  return [type || "any"].flat().join(" or ");
}

function table(rows) {
  const body = element("tbody");
  for (const { name, kind, about } of rows) {
    body.append(element("tr", "", element("th", "", element("code", name)), element("td", kind), element("td", about)));
  }
  return element("table", "", body);
}

function fields(schema) {
  const { properties, required = [], description } = resolved(schema);
  if (!properties) return element("p", description || kindOf(schema));
  return table(Object.entries(properties).map(([name, one]) => {
    const initial = one.default === undefined || one.default === null ? "" : `Default: ${JSON.stringify(one.default)}`;
    const nested = one.properties ? `Fields: ${Object.keys(one.properties).join(", ")}` : "";
    const about = [one.description, nested, initial].filter(Boolean).join(" · ");
    return { name: required.includes(name) ? `${name} *` : name, kind: kindOf(one), about };
  }));
}

function contents(title, content) {
  return Object.entries(content || {}).flatMap(([kind, { schema }]) => [
    element("h3", `${title} · ${kind}${schema?.$ref ? ` · ${kindOf(schema)}` : ""}`),
    schema && fields(schema),
  ]);
}

function operation(method, path, one) {
  const summary = element("summary", "", element("b", method.toUpperCase()), element("code", path), element("span", one.summary));
  const parameters = one.parameters.map(({ name, schema, description }) => ({ name, kind: kindOf(schema), about: description }));
  const answers = Object.entries(one.responses).flatMap(([status, answer]) => contents(`Answer ${status}`, answer.content));
  return element("details", "", summary, parameters.length && element("h3", "Parameters"),
    parameters.length && table(parameters), ...contents("Request", one.requestBody?.content), ...answers);
}

async function show() {
  const api = await (await fetch("/openapi.json")).json();
  schemas = api.components.schemas;
  const groups = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, one] of Object.entries(methods)) {
      const group = groups.get(one.tags[0]) || element("section", "", element("h2", one.tags[0]));
      group.append(operation(method, path, one));
      groups.set(one.tags[0], group);
    }
  }
  const types = element("section", "", element("h2", "Types"));
  for (const name of Object.keys(schemas)) {
    types.append(element("details", "", element("summary", "", element("code", name)), fields({ $ref: `/${name}` })));
  }
  document.getElementById("operations").replaceChildren(...groups.values(), types);
}

show().catch((err) => { document.getElementById("operations").textContent = `The document could not be read: ${err.message}`; });
