// Makes pages live and usable by keyboard. Everything works without it; nothing is loaded from elsewhere.
"use strict";
(() => {
  const root = document.documentElement, body = document.body, main = document.getElementById("main");
  const light = document.getElementById("live"), stopped = document.getElementById("stopped");
  const watched = "watched" in body.dataset;
  let tag = main.dataset.tag, shown = body.dataset.revision, fetching = false, again = false;
  root.classList.add("scripted");

  const say = (text) => { document.getElementById("said").textContent = text; };
  const live = (state, words) => { light.className = "s " + state; light.textContent = words; };
  function current() {
    if (main.querySelector(".lost")) live("unknown", "? not up to date");
    else live("well", "● live");
    answers(true);
  }
  function answers(yes) {
    stopped.hidden = yes;
    main.classList.toggle("grey", !yes);
  }

  // An update changes what changed. Elements that are shown stay if the new page has them too: by
  // their key, else by their place. So focus, selection, scrolling and what is open survive.
  const keyOf = (node) => (node.nodeType === 1 &&
    (node.id || node.dataset.key || node.getAttribute("href") || node.getAttribute("name"))) || "";
  const OF_USER = ["open", "hidden"], FIRST_OF_SERVER = ["aria-expanded", "tabindex"];
  function morph(old, next) {
    if (old.isEqualNode(next)) return;
    if (old.nodeType !== 1) { old.data = next.data; return; }
    if ("kept" in old.dataset) return;
    morphAttributes(old, next);
    morphChildren(old, next);
  }
  function morphAttributes(old, next) {
    for (const { name, value } of next.attributes) {
      const kept = OF_USER.includes(name) || (FIRST_OF_SERVER.includes(name) && old.hasAttribute(name));
      if (!kept && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const { name } of [...old.attributes]) {
      if (!OF_USER.includes(name) && !next.hasAttribute(name)) old.removeAttribute(name);
    }
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
      else if (old.moveBefore) old.moveBefore(match, at);
      else old.insertBefore(match, at);
      morph(match, child);
    }
    while (at) drop();
  }
  function update(html) {
    const next = new DOMParser().parseFromString(html, "text/html"), active = document.activeElement;
    for (const part of watched ? ["head", "main"] : ["head"]) {
      morph(document.getElementById(part), next.getElementById(part));
    }
    body.dataset.revision = next.body.dataset.revision;
    show();
    narrow();
    if (active !== document.activeElement && active.isConnected) active.focus({ preventScroll: true });
  }

  // While a button of the mouse is down, the page does not change below it.
  let pressed = false, release = 0, later = "";
  function released() {
    pressed = false;
    if (later) update(later);
    later = "";
  }
  addEventListener("pointerdown", () => { pressed = true; clearTimeout(release); }, true);
  for (const end of ["pointerup", "pointercancel", "dragend"]) {
    addEventListener(end, () => { release = setTimeout(released); }, true);
  }
  addEventListener("blur", released);

  // The stream says that something has changed, then the page is fetched.
  async function refresh() {
    if (fetching) { again = true; return; }
    fetching = true;
    try {
      const answer = await fetch(location.href, { headers: { "If-None-Match": tag } });
      if (answer.ok) {
        tag = answer.headers.get("ETag");
        const html = await answer.text();
        if (pressed) later = html;
        else update(html);
      }
      if (answer.ok || answer.status === 304) current();
      else live("unknown", "? no answer");
    } catch {
      live("unknown", "? console stopped");
      answers(false);
    }
    fetching = false;
    if (again) { again = false; refresh(); }
  }
  function hear(revision) {
    const same = revision === shown;  // nothing has changed since the page was made
    shown = "";
    if (same) current();
    else refresh();
  }

  // One tab has the stream and tells the others, because browsers open six connections to a host.
  const name = new URL("events", document.baseURI).pathname, others = new BroadcastChannel(name);
  let leave = null, last = "";
  others.onmessage = ({ data }) => {
    if (data === "?") { if (last) others.postMessage(last); }
    else if (leave) hear(data);
  };
  function join() {
    if (leave || document.hidden) return;
    const left = new AbortController();
    leave = () => { left.abort(); leave = null; last = ""; };
    others.postMessage("?");
    if (!navigator.locks) lead(left.signal);
    else navigator.locks.request(name, { signal: left.signal }, () => lead(left.signal)).catch(() => {});
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
    signal.addEventListener("abort", () => { source.close(); done(); });
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) join();
    else if (leave) leave();
  });
  addEventListener("pagehide", () => { if (leave) leave(); });
  addEventListener("pageshow", join);

  // The tree: a row is hidden while one above it is closed.
  const level = (row) => +row.getAttribute("aria-level");
  const rows = () => [...main.querySelectorAll("[role=treegrid] tbody tr")];
  function show() {
    let closed = 99;
    for (const row of rows()) {
      row.hidden = level(row) > closed;
      if (!row.hidden) closed = row.getAttribute("aria-expanded") === "false" ? level(row) : 99;
    }
  }
  function go(row) {
    if (!row) return;
    rows().forEach((element) => { element.tabIndex = -1; });
    row.tabIndex = 0;
    row.focus();
  }
  function inTree(row, pressed) {
    const shown = rows().filter((row) => !row.hidden), at = shown.indexOf(row), state = row.getAttribute("aria-expanded");
    if (pressed === "ArrowDown") go(shown[at + 1]);
    else if (pressed === "ArrowUp") go(shown[at - 1]);
    else if (pressed === "Home") go(shown[0]);
    else if (pressed === "End") go(shown[shown.length - 1]);
    else if (pressed === "ArrowRight" && state === "false") { row.setAttribute("aria-expanded", "true"); show(); }
    else if (pressed === "ArrowRight" && state) go(shown[at + 1]);
    else if (pressed === "ArrowLeft" && state === "true") { row.setAttribute("aria-expanded", "false"); show(); }
    else if (pressed === "ArrowLeft") go(shown.slice(0, at).reverse().find((other) => level(other) < level(row)));
    else if (pressed === "Enter") row.querySelector("a")?.click();
    else return false;
    return true;
  }
  main.addEventListener("click", (event) => {
    const row = event.target.closest(".fold")?.closest("tr[aria-expanded]");
    if (row) { row.setAttribute("aria-expanded", row.getAttribute("aria-expanded") === "false"); show(); go(row); }
  });

  // Filters narrow what is shown; Enter asks the server.
  function narrow() {
    const field = main.querySelector("[data-filter]"), text = (field?.value || "").toLowerCase();
    main.querySelectorAll("[data-row]").forEach((row) => { row.hidden = !row.textContent.toLowerCase().includes(text); });
  }
  main.addEventListener("input", (event) => {
    if (event.target.matches("[data-filter]")) {
      narrow();
      main.querySelectorAll(".sets details").forEach((equal) => { equal.open = event.target.value !== ""; });
    }
    if (event.target.id === "text") number();
  });
  main.addEventListener("change", (event) => {
    if (event.target.matches("[data-submit]")) event.target.form.submit();
    if (event.target.id === "open") opened(event.target.files[0]);
  });

  // Copying.
  async function copy(text) {
    try { await navigator.clipboard.writeText(text); say("Copied"); return true; } catch { say("The browser does not allow copying"); return false; }
  }
  main.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy],[data-copy-from]");
    if (!button) return;
    event.preventDefault();
    const text = button.matches("[data-copy]") ? button.previousElementSibling.textContent : await (await fetch(button.href)).text();
    const words = button.textContent;
    if (await copy(text)) {
      button.dataset.kept = "";
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = words; delete button.dataset.kept; }, 1500);
    }
    else if (button.href) location.href = button.href;
  });

  // The playground: line numbers, files, and a jump to a line.
  const text = document.getElementById("text"), gutter = document.getElementById("gutter");
  function number() {
    const count = Math.max(16, text.value.split("\n").length);
    text.rows = count;
    gutter.textContent = Array.from({ length: count }, (_, n) => n + 1 + "  ").join("\n");
    counted();
  }
  function counted() {
    const lines = text.value ? text.value.replace(/\n$/, "").split("\n").length : 0;
    document.getElementById("count").textContent = lines === 1 ? "1 line" : lines + " lines";
  }
  async function opened(file) {
    if (!file) return;
    const content = await file.text(), form = document.getElementById("playground");
    let saved = null;
    try { saved = JSON.parse(content); } catch { /* YAML */ }
    if (saved && typeof saved.documents === "string") {
      text.value = saved.documents;
      form.elements.operation.value = saved.options?.operation || "CREATE";
      form.elements.user.value = saved.options?.user || "";
      form.elements.cluster.checked = saved.options?.cluster !== false;
    } else text.value = content;
    form.requestSubmit(form.querySelector("button.main"));
  }
  main.addEventListener("click", (event) => {
    const line = +event.target.closest("[data-line]")?.dataset.line;
    if (!line) return;
    event.preventDefault();
    const start = text.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1);
    text.focus();
    text.setSelectionRange(start, start + text.value.split("\n")[line - 1].length);
  });

  addEventListener("keydown", (event) => {
    const target = event.target, typing = target.matches("input,textarea,select");
    if (event.key === "Enter" && event.ctrlKey && text) { text.form.requestSubmit(text.form.querySelector("button.main")); return; }
    if (event.key === "Escape") {
      const field = main.querySelector("[data-filter]");
      if (field && target === field) { field.value = ""; narrow(); }
      document.querySelectorAll("details[open]").forEach((element) => { element.open = false; });
      if (typing) target.blur();
      return;
    }
    if (typing || event.ctrlKey || event.altKey || event.metaKey) return;
    if (target.matches("[role=treegrid] tr") && inTree(target, event.key)) { event.preventDefault(); return; }
    const links = document.querySelectorAll("nav a");
    if (event.key >= "1" && event.key <= String(links.length)) links[event.key - 1].click();
    if (event.key === "/" && main.querySelector("[data-filter]")) { main.querySelector("[data-filter]").focus(); event.preventDefault(); }
  });

  show();
  if (text) counted();
  join();
})();
