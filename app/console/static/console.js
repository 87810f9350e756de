// Makes pages live and usable by keyboard. Everything works without it; nothing is loaded from elsewhere.
"use strict";
(() => {
  const root = document.documentElement, body = document.body, main = document.getElementById("main");
  const page = body.dataset.page, light = document.getElementById("live");
  let tag = main.dataset.tag, shown = body.dataset.revision, source = null, fetching = false, again = false;
  root.classList.add("scripted");

  const say = (text) => { document.getElementById("said").textContent = text; };
  const live = (state, words) => { light.className = "s " + state; light.textContent = words; };
  const current = () => main.querySelector(".lost") ? live("unknown", "? not up to date") : live("well", "● live");

  // Live updates: the stream says that something has changed, then the main part of the page is fetched.
  const key = (row) => row.querySelector("code,a,b")?.textContent + row.getAttribute("aria-level");
  async function refresh() {
    if (fetching) { again = true; return; }
    fetching = true;
    try {
      const url = new URL(location.href);
      url.searchParams.set("fragment", "");
      const answer = await fetch(url, { headers: { "If-None-Match": tag } });
      if (answer.ok) { tag = answer.headers.get("ETag"); replace(await answer.text()); }
      if (answer.ok || answer.status === 304) current();
      else live("unknown", "? no answer");
    } catch { live("unknown", "? console stopped"); }
    fetching = false;
    if (again) { again = false; refresh(); }
  }
  function replace(html) {
    const active = document.activeElement, inside = main.contains(active);
    const at = inside && active.closest("tr") ? key(active.closest("tr")) : null, name = inside && active.name;
    const value = name && active.value, from = name && active.selectionStart;
    const folded = new Set([...main.querySelectorAll("tr[aria-expanded=false]")].map(key));
    const open = [...main.querySelectorAll("details")].map((element) => element.open);
    const filter = main.querySelector("[data-filter]")?.value;
    main.innerHTML = html;
    main.querySelectorAll("details").forEach((element, n) => { element.open = open[n] || false; });
    main.querySelectorAll("tr[aria-expanded]").forEach((row) => { if (folded.has(key(row))) row.setAttribute("aria-expanded", "false"); });
    const field = main.querySelector("[data-filter]");
    if (field && filter !== undefined) field.value = filter;
    show(); narrow();
    const next = name ? main.querySelector(`[name="${CSS.escape(name)}"]`) : at && [...main.querySelectorAll("tr")].find((row) => key(row) === at);
    if (!next) return;
    if (name && "value" in next && next.type !== "checkbox") next.value = value;
    next.focus({ preventScroll: true });
    if (name && from !== null && next.setSelectionRange) next.setSelectionRange(from, from);
  }
  function listen() {
    if (source || document.hidden || page === "playground") return;
    source = new EventSource("events?page=" + page);
    source.onmessage = (event) => {
      const same = event.data === page + " " + shown;  // nothing has changed since the page was made
      shown = "";
      if (same) current(); else refresh();
    };
    source.onerror = () => {
      live("unknown", "? not live, trying again");
      if (source && source.readyState === EventSource.CLOSED) { source = null; setTimeout(listen, 5000); }
    };
  }
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) { listen(); return; }
    if (source) { source.close(); source = null; }
  });
  addEventListener("pagehide", () => { if (source) { source.close(); source = null; } });
  addEventListener("pageshow", listen);

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
    if (event.target.matches("[data-filter]")) narrow();
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
    if (await copy(text)) { button.textContent = "Copied"; setTimeout(() => { button.textContent = words; }, 1500); }
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
  listen();
})();
