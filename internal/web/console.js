// The only script of the pages. Everything works without it; it keeps a page fresh, and adds keys,
// completion of the search and a button that copies.

// fresh: <main data-live="/live"> says where a page's content comes from. Elements stay where they are,
// so that what a person has opened stays open, and the keyboard where it is.
const like = (old, fresh) => {
  if (old.nodeName !== fresh.nodeName) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const a of fresh.attributes) {
    if (old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value);
  }
  alike(old, fresh);
};
const alike = (old, fresh) => {
  const all = [...fresh.childNodes];
  [...old.childNodes].forEach((c, i) => (i < all.length ? like(c, all[i]) : c.remove()));
  old.append(...all.slice(old.childNodes.length));
};
const main = document.querySelector("[data-live]");
if (main) {
  new EventSource(main.dataset.live).onmessage = (e) => {
    const fresh = document.createElement("template");
    fresh.innerHTML = e.data;
    alike(main, fresh.content);
  };
}

// Completion: the list of a search line offers the last word's values after the words before it.
const line = document.querySelector("input[data-words]");
if (line) {
  const words = JSON.parse(line.dataset.words), list = document.getElementById(line.getAttribute("list"));
  const offer = () => {
    const at = line.value.lastIndexOf(" ") + 1, before = line.value.slice(0, at), last = line.value.slice(at);
    const found = words.filter((w) => w.startsWith(last) && w !== last).slice(0, 12);
    list.replaceChildren(...found.map((w) => Object.assign(document.createElement("option"), { value: before + w })));
  };
  line.addEventListener("input", offer);
  offer();
}

// Copy: <button data-copy="ID"> copies the text of an element.
for (const b of document.querySelectorAll("button[data-copy]")) {
  b.hidden = false;
  b.addEventListener("click", async () => {
    const of = document.getElementById(b.dataset.copy);
    try {
      await navigator.clipboard.writeText(of.textContent);
      b.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(of); // without a secure connection: the person copies it
      b.textContent = "Selected";
    }
  });
}

// Keys of the messages. They do nothing while a person types.
const rows = [...document.querySelectorAll("tr[data-row]")];
const help = document.getElementById("keys");
if (rows.length || line) {
  const box = (r) => r.querySelector("input[type=checkbox]"), open = (r) => r.querySelector("th a, a.entry");
  const current = () => rows.findIndex((r) => r.contains(document.activeElement));
  const start = () => rows.findIndex((r) => r.classList.contains("open"));
  const go = (i) => {
    const r = rows[Math.max(0, Math.min(rows.length - 1, i))];
    if (r) open(r).focus();
  };
  const act = (vote) => {
    const i = current();
    if (!rows.some((r) => box(r)?.checked) && i >= 0) box(rows[i]).checked = true;
    if (rows.some((r) => box(r)?.checked)) document.querySelector(`.tools button[value="${vote}"]`)?.click();
  };
  const keys = {
    j: () => go(current() < 0 ? Math.max(0, start()) : current() + 1),
    k: () => go(current() < 0 ? Math.max(0, start()) : current() - 1),
    x: () => current() >= 0 && (box(rows[current()]).checked = !box(rows[current()]).checked),
    s: () => act("spam"),
    h: () => act("ham"),
    u: () => document.querySelector(".notice button")?.click(),
    "/": () => (line?.focus(), line?.select()),
    "?": () => help && ((help.open = !help.open), help.querySelector("summary").focus()),
  };
  document.addEventListener("keydown", (e) => {
    const typing = e.target.matches?.("input:not([type=checkbox]), textarea, select");
    if (e.key === "Escape" && typing) e.target.blur();
    if (typing || e.ctrlKey || e.metaKey || e.altKey || !keys[e.key]) return;
    e.preventDefault();
    keys[e.key]();
  });
}

// One box selects all.
const every = document.querySelector("input[data-all]");
every?.addEventListener("change", () => {
  for (const b of document.querySelectorAll("tr[data-row] input[type=checkbox]")) b.checked = every.checked;
});
