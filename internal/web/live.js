// Keeps the parts of a page fresh that say where from: <main data-live="/live">. What a
// person has opened stays open, and the keyboard stays where it is.
const main = document.querySelector("[data-live]");
const controls = "a[href], summary, [tabindex]";
if (main) {
  new EventSource(main.dataset.live).onmessage = (e) => {
    const open = [...main.querySelectorAll("details")].map((d) => d.open);
    const at = [...main.querySelectorAll(controls)].indexOf(document.activeElement);
    main.innerHTML = e.data;
    main.querySelectorAll("details").forEach((d, i) => { d.open = open[i]; });
    if (at >= 0) main.querySelectorAll(controls)[at]?.focus({ preventScroll: true });
  };
}
