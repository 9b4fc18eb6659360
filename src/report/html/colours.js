// The page's colours, and the ramp of its heat maps.

export const dark = window.matchMedia("(prefers-color-scheme: dark)");

export function onThemeChange(redraw) {
  dark.addEventListener("change", redraw);
}

export function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// From the page's colour over blue to red: the further, the more it stands out from the page, also without colours.
const stops = {
  light: [[255, 255, 255], [130, 180, 230], [225, 120, 60], [130, 10, 30]],
  dark: [[20, 23, 27], [35, 90, 160], [200, 120, 60], [255, 210, 140]],
};

function current() {
  return dark.matches ? stops.dark : stops.light;
}

// Red, green and blue at a share from 0 to 1 of the ramp.
export function colour(share) {
  const all = current();
  const place = Math.min(0.9999, Math.max(0, share)) * (all.length - 1);
  const low = Math.floor(place);
  return all[low].map((from, c) => Math.round(from + (place - low) * (all[low + 1][c] - from)));
}

export function ramp() {
  return current().map((rgb) => `rgb(${rgb.join(",")})`);
}
