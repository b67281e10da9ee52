// Keeps the parts of a page fresh that say where from: <main data-live="/live">. Elements stay
// where they are, so that what a person has opened stays open, and the keyboard where it is.
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
