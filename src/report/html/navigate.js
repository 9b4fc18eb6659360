// Which part of the page is seen: the address (#id of a section, or of something in it) says so.

const groupOf = new Map();
const titles = new Map();
let open = () => {};

// `show(group, id)` is what the page does to show a section.
export function onNavigate(show) {
  open = show;
  window.addEventListener("hashchange", followAddress);
}

export function register(section, title, group) {
  groupOf.set(section, group);
  titles.set(section, title);
}

export function titleOf(section) {
  return titles.get(section);
}

// What lies in a section is named after it: #ranks-5 in #ranks, #step-budget by itself.
function sectionOf(id) {
  return groupOf.has(id) ? id : id.split("-", 1)[0];
}

// Shows a section, or something in it by its id, at once: what comes next may need it.
export function goTo(id) {
  open(groupOf.get(sectionOf(id)), id);
  location.hash = id;
}

export function followAddress() {
  const id = decodeURIComponent(location.hash.slice(1));
  open(groupOf.get(sectionOf(id)), id);
}
