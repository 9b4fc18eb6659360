// node report.mjs DIRECTORY_OF_NODE_MODULES JSON: checks the pages as a user uses them.
import assert from "node:assert/strict";
import {readFileSync, statSync} from "node:fs";
import {createRequire} from "node:module";
import {dirname, join} from "node:path";

import {viewOfFinding} from "../../src/report/html/views/finding_views.js";

const [modules, given] = process.argv.slice(2);
const pages = JSON.parse(given);
const {chromium} = createRequire(join(modules, "package.json"))("playwright-core");
const browser = await chromium.launch({executablePath: pages.chromium, args: ["--no-sandbox", "--disable-gpu", "--disable-quic",
  "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]});

const viewport = {width: 1300, height: 900};

// A page with everything that it complained about so far, and the seconds of processor time that its main thread needed
// until everything could be used: time on the wall would depend on what else the machine does.
async function open(path, size = viewport) {
  const context = await browser.newContext({viewport: size});
  const page = await context.newPage();
  const devtools = await context.newCDPSession(page);
  await devtools.send("Performance.enable", {timeDomain: "threadTicks"});
  const complaints = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) complaints.push(message.text()); });
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => { if (!request.url().startsWith("file:") && !request.url().startsWith("data:")) complaints.push(`asked for ${request.url()}`); });
  await page.goto(`file://${path}`);
  await page.waitForSelector("html[data-ready]");
  const {metrics} = await devtools.send("Performance.getMetrics");
  const seconds = metrics.find(({name}) => name === "TaskDuration").value;
  return {page, complaints, seconds, close: () => context.close()};
}

// A window as high as the page sees all of it, so that every chart is drawn.
async function readAll(page, size = viewport) {
  const height = await page.evaluate(() => document.body.scrollHeight);
  await page.setViewportSize({...size, height: height + 1000});
  await page.waitForFunction(() => [...document.querySelectorAll(".chart")].filter((chart) => chart.offsetParent !== null)
    .every((chart) => chart.dataset.drawn === "yes"));
  await page.setViewportSize(size);
}

// One page serves all tests that only look at it and click.
const late = await open(pages.late);

const tests = {
  async "every view is drawn, light and dark, without complaint and without the network"() {
    const {page, complaints} = late;
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({colorScheme});
      await readAll(page);
      assert.deepEqual(complaints, []);
      assert.equal(await page.locator("text=could not be drawn").count(), 0);
    }
    await page.emulateMedia({colorScheme: "light"});
    const sections = await page.evaluate(() => Object.fromEntries([...document.querySelectorAll("section")].map((one) =>
      [one.id, {text: one.innerText.length, charts: one.querySelectorAll(".chart[data-drawn] canvas").length, empty: one.querySelectorAll("p.empty").length}])));
    const withChart = ["collective", "cases", "waits", "bytes", "budget", "bandwidth", "nvlink", "kernels", "strips", "categories", "utilisation", "roofline", "latency", "concurrency",
      "idle", "phases", "clocks"];
    for (const id of ["verdict", "findings", "heat", "cases", "ranks", "levels", "communicators", "facts", "host", "tables", "warnings", ...withChart]) {
      assert.ok(sections[id], id);
      assert.ok(sections[id].text > 20, `${id} is empty`);
    }
    for (const id of withChart) {
      assert.ok(sections[id].charts > 0, `${id} has no chart`);
    }
  },

  async "from the verdict to the evidence in two clicks"() {
    const {page} = late;
    assert.match(await page.locator("#verdict h1").innerText(), new RegExp(`Trace rank ${pages.lateRank} .* makes the others wait`));
    // The verdict and its finding put the same figure on it.
    const share = /[\d.]+% of all GPU time/;
    assert.equal((await page.locator("#verdict h1").innerText()).match(share)[0], (await page.locator("#findings summary").first().innerText()).match(share)[0]);
    const panel = page.locator("#collective");
    const selected = () => page.locator("#collective-choice").inputValue();
    const first = await selected();
    // Why: one click, to a collective that the late one delayed, with its work beside a peer's.
    const last = await page.locator("#collective-choice option").count() - 1;
    await page.locator("#collective-choice").selectOption({index: last});
    assert.notEqual(await selected(), first);
    await page.locator("#verdict a", {hasText: "see why"}).click();
    assert.equal(await selected(), first, "the page opens on the case that the verdict leads to");
    assert.match(await panel.innerText(), new RegExp(`Trace rank ${pages.lateRank}( on \\S+)? came last`));
    assert.match(await panel.locator("h3").first().innerText(), /beside its median peer/);
    const work = panel.locator("table[aria-label='Work before the collective']");
    assert.match(await work.locator("thead").innerText(), new RegExp(`trace rank ${pages.lateRank} \\(late\\)\\s+trace rank \\d+ \\(median peer\\)\\s+difference`));
    assert.match(await work.locator("tr", {hasText: "compute"}).innerText(), /compute/);
    // When: to the heat map, and from a cell to a collective in which its trace rank waited.
    await page.locator("#verdict a", {hasText: "see when"}).click();
    const canvas = page.locator("#heat canvas");
    await canvas.scrollIntoViewIfNeeded();
    const box = await canvas.boundingBox();
    await page.mouse.click(box.x + box.width / 2, box.y + 5);
    assert.match(await panel.locator("[aria-live] p.note").first().innerText(), /race rank 0 at \S+ \w+/);
  },

  async "a cell of the heat map opens a collective of its own trace rank"() {
    const {page} = late;
    const canvas = page.locator("#heat canvas");
    for (let row = 0; row < pages.ranks; ++row) {
      await canvas.scrollIntoViewIfNeeded();
      const box = await canvas.boundingBox();
      await page.mouse.click(box.x + 0.4 * box.width, box.y + (row + 0.5) * box.height / pages.ranks);
      const members = await page.locator("#collective table[aria-label='Arrivals'] tbody td:first-child").allInnerTexts();
      assert.ok(members.includes(String(row)), `row ${row} opened a collective of ${members}`);
    }
  },

  async "every finding leads to a view with its evidence"() {
    const {page} = late;
    const findings = page.locator("#findings details");
    assert.ok(await findings.count() >= 2);
    for (let i = 0; i < await findings.count(); ++i) {
      const target = await findings.nth(i).locator("a", {hasText: "Show the evidence"}).getAttribute("href");
      assert.equal(await page.locator(target).count(), 1, target);
    }
    // Also those that other jobs have.
    const ids = await page.evaluate(() => [...document.querySelectorAll("section")].map((section) => section.id));
    for (const [finding, view] of Object.entries(viewOfFinding)) assert.ok(ids.includes(view), `${finding} leads to ${view}`);
  },

  async "levels, waits between ranks, bandwidth and run facts are those of report.json"() {
    const {page} = late;
    const report = JSON.parse(readFileSync(join(dirname(pages.late), "report.json"), "utf8"));
    const headings = await page.locator("#levels h3").allInnerTexts();
    assert.deepEqual(headings, ["By node (2)", "By rail (4)", "By pipeline stage (2)", "By tensor index (2)", "By data index (2)", "Balance of the pipeline stages"]);
    const places = (level) => page.locator(`#levels table[aria-label='By ${level}'] tbody tr`);
    // The stage and the index that hold the late trace rank come first: their delays cost most.
    assert.match(await places("pipeline stage").first().innerText(), new RegExp(`^${pages.lateStage}\\s`));
    assert.match(await page.locator("#waits .chart").getAttribute("aria-label"), /Whose delays cost whom/);
    const heads = await page.locator("#ranks thead th").allInnerTexts();
    const column = heads.indexOf("bus bandwidth (GB/s)");
    const own = report.ranks.find((rank) => rank.trace_rank === pages.lateRank);
    assert.equal(await page.locator(`#rank-${pages.lateRank} td`).nth(column).innerText(), String(Number(own.bus_bandwidth_gbs.toPrecision(4))));
    assert.equal(await page.locator("#facts tbody tr").count(), report.run_facts.reduce((rows, fact) => rows + fact.values.length, 0));
    assert.match(await page.locator("#facts tr.marked").first().innerText(), /driver[^]*differs/);
    assert.equal(await page.locator("#budget .chart").count(), 2, "budget and overlap");
    const facts = await page.locator("#verdict .facts").innerText();
    assert.ok(facts.includes(`${Number(report.delay.gpu_hours_per_day.toPrecision(3))} GPU-hours a day`), facts);
    assert.match(facts, /Matched by\s+NCCL payload/);
  },

  async "headings are words, not names of columns"() {
    const {page} = late;
    const raw = await page.evaluate(() => [...document.querySelectorAll("thead th")].map((head) => head.innerText).filter((text) => text.includes("_")));
    assert.deepEqual(raw, []);
  },

  async "the heat map switches, zooms by mouse, step and keyboard, and back"() {
    const {page} = late;
    const canvas = page.locator("#heat canvas");
    await canvas.scrollIntoViewIfNeeded();
    const width = () => canvas.evaluate((c) => c.width);
    const whole = await width();
    const pixels = () => canvas.evaluate((c) => c.toDataURL());
    const waiting = await pixels();
    await page.locator("#heat button", {hasText: "own lateness"}).click();
    assert.notEqual(await pixels(), waiting);
    const box = await canvas.boundingBox();
    await page.mouse.move(box.x + box.width * 0.25, box.y + 10);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, box.y + 10, {steps: 4});
    await page.mouse.up();
    const zoomed = await width();
    assert.ok(zoomed < whole / 3 && zoomed > whole / 6, `${zoomed} of ${whole} bins`);
    await page.locator("#heat button", {hasText: "whole run"}).click();
    assert.equal(await width(), whole);
    const select = page.locator("#heat select");
    assert.equal(await select.locator("option").count(), 1 + pages.steps);
    await select.selectOption({index: 3});
    const step = await width();
    assert.ok(step > 0.5 * whole / pages.steps && step < 2 * whole / pages.steps + 2, `${step} of ${whole} bins are one of ${pages.steps} steps`);
    await select.selectOption({index: 0});
    assert.equal(await width(), whole);
    await canvas.focus();
    await page.keyboard.press("ArrowDown");
    assert.match(await page.locator("#heat output").innerText(), /Trace rank 1\b/);
    await page.keyboard.press("+");
    assert.ok(await width() < whole);
    await page.keyboard.press("-");
    assert.equal(await width(), whole);
  },

  async "a trace rank can be chosen for what is shown over time"() {
    const {page} = late;
    for (const id of ["nvlink", "utilisation", "roofline"]) {
      const select = page.locator(`#${id} select`);
      assert.equal(await select.inputValue(), String(pages.lateRank), id);
      await select.selectOption("0");
      await page.waitForSelector(`#${id} .chart[aria-label*="trace rank 0"]`);
    }
  },

  async "tables sort both ways"() {
    const {page} = late;
    const head = page.locator("#ranks thead button", {hasText: "own lateness"});
    const first = page.locator("#ranks tbody tr").first().locator("td").first();
    await head.click();
    assert.equal(await first.innerText(), String(pages.lateRank));
    await head.click();
    assert.notEqual(await first.innerText(), String(pages.lateRank));
  },

  async "a report of 1,024 trace ranks is small and opens in less than two seconds"() {
    const {page, complaints, seconds, close} = await open(pages.large);
    const bytes = statSync(pages.large).size;
    console.log(`        1,024 trace ranks: ${(bytes / 1e6).toFixed(1)} MB, ${seconds.toFixed(2)} s of the main thread until all of it can be used`);
    assert.ok(bytes < 10e6, `${bytes} bytes`);
    assert.ok(seconds > 0.05 && seconds < 2, `${seconds} s`);
    assert.equal(await page.locator("#heat canvas").evaluate((canvas) => canvas.height), 1024);
    assert.match(await page.locator("#verdict h1").innerText(), new RegExp(`Trace rank ${pages.largeLateRank} .* makes the others wait`));
    await readAll(page);
    assert.deepEqual(complaints, []);
    assert.equal(await page.locator("text=could not be drawn").count(), 0);
    await close();
  },

  async "a phone shows all of it without scrolling sideways"() {
    const phone = {width: 390, height: 800};
    const {page, complaints, close} = await open(pages.late, phone);
    await readAll(page, phone);
    assert.deepEqual(complaints, []);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), phone.width);
    await close();
  },

  async "texts stand out from their background, light and dark"() {
    const {page} = late;
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({colorScheme});
      const faint = await page.evaluate(() => {
        const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
        const luminance = (rgb) => rgb.slice(0, 3).map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
          .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
        const background = (element) => {
          for (let e = element; e; e = e.parentElement) {
            const rgb = numbers(getComputedStyle(e).backgroundColor);
            if (rgb.length === 3 || rgb[3] > 0) return rgb;
          }
          return [255, 255, 255];
        };
        const found = new Set();
        for (const element of document.querySelectorAll("body *")) {
          const hasText = [...element.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.data.trim() !== "");
          if (!hasText || element.offsetParent === null || element.closest("script, style")) continue;
          const [a, b] = [luminance(numbers(getComputedStyle(element).color)), luminance(background(element))];
          const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
          if (contrast < 4.5) found.add(`${element.tagName}.${element.className} ${contrast.toFixed(2)}`);
        }
        return [...found];
      });
      assert.deepEqual(faint, [], colorScheme);
    }
    await page.emulateMedia({colorScheme: "light"});
  },

  async "everything that takes the focus has a name, and headings nest"() {
    const {page, close} = await open(pages.late);
    const problems = await page.evaluate(() => {
      const found = [];
      for (const element of document.querySelectorAll("a, button, select, summary, #heat canvas, [tabindex], [role=img]")) {
        const name = element.getAttribute("aria-label") || element.innerText || element.textContent;
        if (!name || name.trim() === "") found.push(`no name: ${element.outerHTML.slice(0, 120)}`);
      }
      let level = 0;
      for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
        const next = Number(heading.tagName[1]);
        if (next > level + 1) found.push(`h${level} is followed by h${next}: ${heading.innerText}`);
        level = next;
      }
      const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
      for (const id of ids.filter((one, index) => ids.indexOf(one) !== index)) found.push(`twice: #${id}`);
      for (const link of document.querySelectorAll("a[href^='#']")) if (!document.getElementById(link.hash.slice(1))) found.push(`leads nowhere: ${link.hash}`);
      return found;
    });
    assert.deepEqual(problems, []);
    // By keyboard alone: past the contents to the report, and to the first link of the verdict.
    await page.keyboard.press("Tab");
    const focused = () => page.evaluate(() => document.activeElement.innerText);
    assert.equal(await focused(), "Skip to the report");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    assert.match(await focused(), /Trace rank/);
    assert.notEqual(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), "none");
    await close();
  },

  async "a single trace says what is missing"() {
    const {page, complaints, close} = await open(pages.one);
    await readAll(page);
    assert.deepEqual(complaints, []);
    assert.equal(await page.locator("text=could not be drawn").count(), 0);
    assert.ok(await page.locator("p.empty").count() > 2);
    await close();
  },

  async "hostile names are only text"() {
    const {page, complaints, close} = await open(pages.hostile);
    await readAll(page);
    await page.evaluate(() => { for (const details of document.querySelectorAll("#tables details")) details.open = true; });
    await page.waitForFunction(() => [...document.querySelectorAll("#tables details")].every((details) => details.children[1].hasChildNodes()));
    assert.deepEqual(complaints, []);
    assert.equal(await page.evaluate(() => window.harmed), undefined);
    assert.equal(await page.locator("img").count(), 0);
    await close();
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    console.log(`ok      ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}\n${error.stack}`);
  }
}
await browser.close();
process.exit(failed === 0 ? 0 : 1);
