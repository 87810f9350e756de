// Updates pages, and makes them usable by keyboard. Links and forms work without it.
const body = document.body, byId = (id) => document.getElementById(id);
const all = (selector) => [...document.querySelectorAll(selector)];
const main = byId("main"), text = byId("text");  // of the playground
let tag = main.dataset.tag, shown = body.dataset.revision, fetching = false, again = false;
const on = (type, act) => main.addEventListener(type, act);
document.documentElement.classList.add("scripted");

const say = (words) => { byId("said").textContent = words; };
function live(state, words) {
  Object.assign(byId("live"), { className: "s " + state, textContent: words });
}
function answers(yes) {
  byId("stopped").hidden = yes;
  main.classList.toggle("grey", !yes);
}
function current() {
  if (main.querySelector(".lost")) live("unknown", "? not up to date");
  else live("well", "● live");
  answers(true);
}

// An update changes only the differences. An element is kept if the new page has it too, with the
// same key or else at the same place. So focus, selection, scrolling and open parts are kept.
const keyOf = (node) => node.id || node.dataset?.key || node.getAttribute?.("href") || node.getAttribute?.("name");
const OF_USER = ["open", "hidden"], FIRST_OF_SERVER = ["aria-expanded", "tabindex"];
function morph(old, next) {
  if (old.isEqualNode(next)) return;
  if (old.nodeType !== 1) { old.data = next.data; return; }
  if ("kept" in old.dataset) return;
  for (const { name, value } of next.attributes) {
    const kept = OF_USER.includes(name) || (FIRST_OF_SERVER.includes(name) && old.hasAttribute(name));
    if (!kept && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const name of old.getAttributeNames()) {
    if (!OF_USER.includes(name) && !next.hasAttribute(name)) old.removeAttribute(name);
  }
  morphChildren(old, next);
}
function morphChildren(old, next) {
  const keyed = new Map([...old.children].reverse().filter(keyOf).map((child) => [keyOf(child), child]));
  const wanted = new Set([...next.children].map(keyOf).filter((key) => keyed.has(key)));
  let at = old.firstChild;
  const drop = () => { const gone = at; at = at.nextSibling; gone.remove(); };
  for (const child of [...next.childNodes]) {
    const key = keyOf(child);
    while (at && keyOf(at) && !wanted.has(keyOf(at))) drop();
    const match = key ? keyed.get(key) : at && !keyOf(at) ? at : null;
    if (!match || match.nodeName !== child.nodeName) { old.insertBefore(child, at); continue; }
    keyed.delete(key);
    while (key && at && at !== match && !wanted.has(keyOf(at))) drop();
    wanted.delete(key);
    if (match === at) at = at.nextSibling;
    else old[old.moveBefore ? "moveBefore" : "insertBefore"](match, at);
    morph(match, child);
  }
  while (at) drop();
}
function update(html) {
  const active = document.activeElement, next = new DOMParser().parseFromString(html, "text/html");
  morph(byId("head"), next.getElementById("head"));
  if ("watched" in body.dataset) morph(main, next.getElementById("main"));
  show();
  narrow();
  if (active.isConnected) active.focus({ preventScroll: true });
}

// While a mouse button is down, the page is not changed, so that a click hits its target.
let pressed = false, release = 0, later = "";
function released() {
  pressed = false;
  if (later) update(later);
  later = "";
}
window.onpointerdown = () => { pressed = true; clearTimeout(release); };
window.onpointerup = window.onpointercancel = window.ondragend = () => { release = setTimeout(released); };
window.onblur = released;

// When the stream announces a change, the page is fetched again.
async function refresh() {
  again = fetching;
  if (fetching) return;
  fetching = true;
  try {
    const answer = await fetch(location.href, { headers: { "If-None-Match": tag } });
    if (answer.ok) {
      tag = answer.headers.get("ETag");
      later = await answer.text();
      if (!pressed) released();
    }
    if (answer.ok || answer.status === 304) current();
    else live("unknown", "? error " + answer.status);
  } catch {
    live("unknown", "? no answer");
    answers(false);
  }
  fetching = false;
  if (again) refresh();
}
function hear(revision) {
  if (revision === shown) current();  // nothing has changed since the page was rendered
  else refresh();
  shown = "";
}

// One tab reads the stream for all tabs, because browsers open at most six connections to a host.
const name = new URL("events", document.baseURI).pathname, others = new BroadcastChannel(name);
let leave = null, last = "";
others.onmessage = ({ data }) => {
  if (data !== "?") { if (leave) hear(data); }
  else if (last) others.postMessage(last);
};
function join() {
  if (leave || document.hidden) return;
  const left = new AbortController(), { signal } = left;
  leave = () => { left.abort(); leave = null; last = ""; };
  others.postMessage("?");
  if (!navigator.locks) lead(signal);
  else navigator.locks.request(name, { signal }, () => lead(signal)).catch(() => {});
}
const lead = (signal) => new Promise((done) => {
  const tell = (revision) => { last = revision; hear(revision); others.postMessage(revision); };
  let source;
  function open() {
    if (signal.aborted) return;
    source = new EventSource("events");
    source.onmessage = (event) => tell(event.data);
    source.onerror = () => {
      live("unknown", "? not live, trying again");
      tell("-");
      if (source.readyState === EventSource.CLOSED) setTimeout(open, 5000);
    };
  }
  open();
  signal.onabort = () => { source.close(); done(); };
});
document.onvisibilitychange = () => document.hidden ? leave?.() : join();
window.onpagehide = () => leave?.();
window.onpageshow = join;

// The tree: a row is hidden while one of its ancestors is closed.
const level = (row) => +row.ariaLevel;
const isClosed = (row) => row.ariaExpanded === "false", isOpen = (row) => row.ariaExpanded === "true";
const rows = () => all("[role=treegrid] tbody tr");
function show() {
  let closed = 99;
  for (const row of rows()) {
    row.hidden = level(row) > closed;
    if (!row.hidden) closed = isClosed(row) ? level(row) : 99;
  }
  tabs();
}
// The Tab key reaches only the links of the focused row, so that the tree takes few Tab stops.
function tabs() {
  for (const row of rows()) row.querySelectorAll("a").forEach((link) => { link.tabIndex = row.tabIndex; });
}
function expand(row, yes) {
  row.ariaExpanded = yes;
  show();
}
function go(row) {
  if (row) rows().forEach((other) => { other.tabIndex = other === row ? 0 : -1; });
  tabs();
  row?.focus();
}
function inTree(row, key) {
  const seen = rows().filter((row) => !row.hidden), at = seen.indexOf(row), before = seen.slice(0, at);
  const moves = {
    ArrowDown: () => go(seen[at + 1]),
    ArrowUp: () => go(seen[at - 1]),
    Home: () => go(seen[0]),
    End: () => go(seen.at(-1)),
    ArrowRight: () => isClosed(row) ? expand(row, true) : isOpen(row) && go(seen[at + 1]),
    ArrowLeft: () => isOpen(row) ? expand(row, false) : go(before.findLast((other) => level(other) < level(row))),
    Enter: () => row.querySelector("a")?.click(),
  };
  moves[key]?.();
  return key in moves;
}
on("click", (event) => {
  const row = event.target.closest("[aria-expanded]");
  if (row && event.target.matches(".fold")) { expand(row, isClosed(row)); go(row); }
});

// Filters hide rows of the page at once. Enter requests the filtered page from the server.
const filter = () => main.querySelector("[data-filter]");
function narrow() {
  const wanted = filter()?.value.toLowerCase() || "";
  for (const row of all("[data-row]")) row.hidden = !row.textContent.toLowerCase().includes(wanted);
}
on("input", ({ target }) => {
  if (target !== filter()) return;
  narrow();
  for (const equal of all(".sets details")) equal.open = target.value !== "";
});
on("change", ({ target }) => {
  if ("submit" in target.dataset) target.form.submit();
});

// Copying.
on("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  event.preventDefault();
  const words = button.textContent;
  const copied = button.href ? await (await fetch(button.href)).text() : button.previousElementSibling.textContent;
  try {
    await navigator.clipboard.writeText(copied);
  } catch {
    say("The browser does not allow copying");
    if (button.href) location.href = button.href;
    return;
  }
  say("Copied");
  button.dataset.kept = "";
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = words; delete button.dataset.kept; }, 1500);
});

// The playground: line numbers, files, and a jump to a line.
on("input", ({ target }) => {
  if (target !== text) return;
  text.rows = Math.max(16, text.value.split("\n").length);
  byId("gutter").textContent = Array.from({ length: text.rows }, (_, n) => n + 1 + "  ").join("\n");
  const lines = text.value ? text.value.replace(/\n$/, "").split("\n").length : 0;
  byId("count").textContent = lines === 1 ? "1 line" : lines + " lines";
});
on("change", async ({ target }) => {
  if (!target.files?.length) return;
  text.value = await target.files[0].text();
  try {
    const { documents, options } = JSON.parse(text.value), { operation, user, cluster } = text.form.elements;
    if (typeof documents === "string") {
      text.value = documents;
      operation.value = options?.operation || "CREATE";
      user.value = options?.user || "";
      cluster.checked = options?.cluster !== false;
    }
  } catch { /* YAML */ }
  text.form.requestSubmit();
});
on("click", (event) => {
  const line = +event.target.closest("[data-line]")?.dataset.line;
  if (!line) return;
  event.preventDefault();
  const lines = text.value.split("\n"), start = lines.slice(0, line - 1).join("\n").length + (line > 1);
  text.focus();
  text.setSelectionRange(start, start + lines[line - 1].length);
});

window.onkeydown = (event) => {
  const { target, key } = event, typing = target.matches("input,textarea,select"), field = filter();
  if (key === "Enter" && event.ctrlKey && text) return text.form.requestSubmit();
  if (key === "Escape") {
    if (target === field) { field.value = ""; narrow(); }
    for (const opened of all("details[open]")) opened.open = false;
    if (typing) target.blur();
  }
  if (typing || event.ctrlKey || event.altKey || event.metaKey) return;
  if (target.matches("[role=treegrid] tr") && inTree(target, key)) return event.preventDefault();
  all("nav a")[key - 1]?.click();
  if (key === "/" && field) { field.focus(); event.preventDefault(); }
};

show();
join();
