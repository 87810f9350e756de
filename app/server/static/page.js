"use strict";

/* Shows each path of the OpenAPI document, and sends what is typed. All texts are set as text. */

function element(name, text, properties) {
  const made = document.createElement(name);
  made.textContent = text;
  return Object.assign(made, properties);
}

function readable(text) {
  try {
    const value = JSON.parse(text);
    const patch = value.response && value.response.patch;
    if (patch) value.response.patch = JSON.parse(atob(patch));
    return JSON.stringify(value, null, 2);
  } catch {
    return text;
  }
}

async function send(path, method, type, body) {
  const headers = type ? { "content-type": type } : {};
  const answer = await fetch(path, { method, headers, body });
  return `${answer.status}\n${readable(await answer.text())}`;
}

function shown(path, method, operation) {
  const box = element("details", "");
  const head = element("summary", "");
  head.append(element("code", `${method.toUpperCase()} ${path}`), ` ${operation.summary || ""}`);
  box.append(head);
  if (operation.description) box.append(element("p", operation.description));

  const [type, content] = Object.entries(operation.requestBody?.content || {})[0] || [];
  const example = content?.example;
  const text = example ? JSON.stringify(example, null, 2) : "";
  const id = `body of ${method} ${path}`;
  const area = type && element("textarea", text, { id, spellcheck: false });
  if (area) box.append(element("label", `Body, ${type}`, { htmlFor: id }), area);

  const result = element("pre", "");
  result.setAttribute("aria-live", "polite");
  const button = element("button", "Send", { type: "button" });
  button.addEventListener("click", async () => {
    result.textContent = "…";
    result.textContent = await send(path, method.toUpperCase(), type, area?.value).catch(String);
  });
  box.append(button, result);
  return box;
}

fetch("openapi.json")
  .then((answer) => answer.json())
  .then(({ paths }) => {
    for (const [path, methods] of Object.entries(paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        document.getElementById("paths").append(shown(path, method, operation));
      }
    }
  })
  .catch((problem) => { document.getElementById("problem").textContent = String(problem); });
