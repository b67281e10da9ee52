// Keeps the parts of a page fresh that say where from: <main data-live="/live">.
const main = document.querySelector("[data-live]");
if (main) {
  new EventSource(main.dataset.live).onmessage = (e) => { main.innerHTML = e.data; };
}
