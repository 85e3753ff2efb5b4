// The HTTP interface, made from openapi.json: every route with its fields, and a form to try it.

const $ = (id) => document.getElementById(id);
const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};
const headers = () => ($("key").value ? { "X-API-Key": $("key").value } : {});

/** An input for one field of a form, by its schema; `anyOf` with null is a field that may stay empty. */
function field(name, schema) {
  const kinds = [schema, ...(schema.anyOf ?? [])], choices = kinds.find((kind) => kind.enum)?.enum;
  const is = (type) => kinds.some((kind) => kind.type === type);
  let input;
  if (choices) input = make("select", {}, new Option("", ""), ...choices.map((choice) => new Option(choice, choice)));
  else if (schema.format === "binary") input = make("input", { type: "file" });
  else if (is("boolean")) input = make("input", { type: "checkbox", value: "true" });
  else input = make("input", { type: is("number") || is("integer") ? "number" : "text", step: "any" });
  return Object.assign(input, { name });
}

function formOf(operation) {
  const schema = operation.requestBody?.content["multipart/form-data"]?.schema;
  return Object.entries(schema?.properties ?? {}).map(([name, each]) => {
    const input = field(name, each), needed = schema.required?.includes(name) ? " (needed)" : "";
    return make("label", { className: "field" }, make("code", { textContent: name + needed }), input, make("small", { textContent: each.description ?? "" }));
  });
}

function typesOf(operation) {
  const types = Object.keys(operation.responses[200]?.content ?? operation.responses[202]?.content ?? {});
  return types.length > 1 ? [make("label", { className: "field" }, make("code", { textContent: "Accept" }), make("select", { className: "accept" }, ...types.map((type) => new Option(type, type))))] : [];
}

/** Text is shown, everything else becomes a link to save. */
async function show(answer, box) {
  const type = answer.headers.get("content-type") ?? "", note = make("p", { textContent: `${answer.status} ${type}` });
  if (/json|text/.test(type)) {
    const text = await answer.text();
    return box.replaceChildren(note, make("pre", { textContent: text.length > 4000 ? `${text.slice(0, 4000)} …` : text }));
  }
  const data = await answer.blob();
  if (!data.size) return box.replaceChildren(note);
  box.replaceChildren(note, make("a", { href: URL.createObjectURL(data), download: "answer", textContent: `Save ${data.size} bytes` }));
}

function route(path, method, operation) {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
  const places = names.map((name) => make("label", { className: "field" }, make("code", { textContent: `${name} (in the path)` }), make("input", { type: "text", className: "place", required: true })));
  const answer = make("div", { className: "answer" });
  answer.setAttribute("aria-live", "polite");
  const form = make("form", {}, ...places, ...formOf(operation), ...typesOf(operation), make("button", { className: "primary", textContent: "Send" }), answer);
  form.onsubmit = async (e) => {
    e.preventDefault();
    const inputs = [...form.querySelectorAll(".place")];
    const url = names.reduce((text, name, k) => text.replace(`{${name}}`, encodeURIComponent(inputs[k].value)), path).slice(1);
    const accept = form.querySelector(".accept")?.value, request = { method: method.toUpperCase(), headers: { ...headers(), ...(accept && { Accept: accept }) } };
    if (operation.requestBody) {
      request.body = new FormData();
      for (const [name, value] of new FormData(form)) if (value !== "" && !(value instanceof File && !value.name)) request.body.append(name, value);
    }
    answer.replaceChildren("…");
    try {
      await show(await fetch(url || ".", request), answer);
    } catch (error) {
      answer.replaceChildren(`The server cannot be reached (${error.message}).`);
    }
  };
  const statuses = make("dl", {}, ...Object.entries(operation.responses).flatMap(([status, response]) => [make("dt", { textContent: status }), make("dd", { textContent: response.description })]));
  const title = make("summary", {}, make("code", { textContent: `${method.toUpperCase()} ${path}` }), ` ${operation.summary ?? ""}`);
  return make("details", {}, title, form, statuses);
}

async function load() {
  const answer = await fetch("openapi.json", { headers: headers() });
  $("key-box").hidden = answer.status !== 401;
  $("docs-error").hidden = answer.ok || answer.status === 401;
  if (!answer.ok) return void ($("docs-error").textContent = `The description cannot be read (status ${answer.status}).`);
  const description = await answer.json();
  $("about").textContent = description.info.description;
  const methods = ["get", "post", "delete"];
  $("routes").replaceChildren(...Object.entries(description.paths).flatMap(([path, each]) => methods.filter((m) => each[m]).map((m) => route(path, m, each[m]))));
  document.body.dataset.ready = "true";
}

$("key-box").onsubmit = (e) => { e.preventDefault(); load(); };
await load();
