// node report.mjs DIRECTORY_OF_NODE_MODULES JSON: checks the pages as a user uses them.
import assert from "node:assert/strict";
import {readFileSync, statSync} from "node:fs";
import {createRequire} from "node:module";
import {dirname, join} from "node:path";

import {apart, roundTicks} from "../../src/report/html/format.js";
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
  page.on("request", (request) => { if (!/^(file|data|blob):/.test(request.url())) complaints.push(`asked for ${request.url()}`); });
  await page.goto(`file://${path}`);
  await page.waitForSelector("html[data-ready]");
  const {metrics} = await devtools.send("Performance.getMetrics");
  const seconds = metrics.find(({name}) => name === "TaskDuration").value;
  return {page, complaints, seconds, close: () => context.close()};
}

const groups = ["overview", "moments", "waiting", "places", "time", "kernel", "network", "run", "store"];

// Goes to a group, or to a section, as a link to it does.
async function see(page, id) {
  await page.evaluate((hash) => { location.hash = ""; location.hash = hash; }, id);
  await page.locator(`#${id}`).waitFor({state: "visible"});
}

// Every group, in a window as high as the page sees all of it, so that every chart is drawn; `look` at each.
async function readAll(page, size = viewport, look = async () => {}) {
  for (const group of groups) {
    await see(page, group);
    const height = await page.evaluate(() => document.body.scrollHeight);
    await page.setViewportSize({...size, height: height + 1000});
    await page.waitForFunction(() => [...document.querySelectorAll(".chart")].filter((chart) => chart.offsetParent !== null)
      .every((chart) => chart.dataset.drawn === "yes"));
    await page.setViewportSize(size);
    await look(group);
  }
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
      [one.id, {text: one.textContent.length, charts: one.querySelectorAll(".chart[data-drawn] canvas").length}])));
    const withChart = ["steps", "collective", "cases", "waits", "bytes", "budget", "bandwidth", "nvlink", "kernels", "strips", "categories", "utilisation", "roofline", "latency", "concurrency",
      "idle", "phases", "clocks"];
    for (const id of ["verdict", "findings", "heat", "cases", "ranks", "levels", "communicators", "facts", "host", "tables", "warnings", ...withChart]) {
      assert.ok(sections[id], id);
      assert.ok(sections[id].text > 20, `${id} is empty`);
    }
    for (const id of withChart) {
      assert.ok(sections[id].charts > 0, `${id} has no chart`);
    }
  },

  async "the verdict comes first, with host, GPU and next action, and names the tab of the browser"() {
    const {page} = late;
    await see(page, "overview");
    const report = JSON.parse(readFileSync(join(dirname(pages.late), "report.json"), "utf8"));
    const banner = page.locator("#verdict");
    assert.equal(await page.locator("main > .verdict h1").innerText(), report.verdict.text);
    assert.match(report.verdict.text, new RegExp(`rank ${pages.lateRank}\\b`));
    assert.ok((await banner.innerText()).includes(report.verdict.next));
    const {host, gpu_name: gpu} = report.trace_ranks[pages.lateRank];
    assert.match(await banner.locator("li").first().innerText(), new RegExp(`${host}, GPU \\d \\(${gpu}\\)`));
    assert.ok((await page.title()).startsWith(report.verdict.text.slice(0, 40)), await page.title());
    assert.ok((await page.title()).includes("- job -"), "the directory of the traces");
  },

  async "the overview is the verdict, where a step goes, who is late when, and the findings; what it rests on is folded"() {
    const {page} = late;
    await see(page, "overview");
    assert.deepEqual(await page.locator("#overview > section").evaluateAll((all) => all.map((one) => one.id)),
      ["verdict", "step-bar", "lateness", "findings", "steps", "figures"]);
    assert.equal(await page.locator("#verdict .quality").evaluate((details) => details.open), false);
    assert.match(await page.locator("#verdict .quality summary").innerText(), /8 inputs ok, [\d,]+ collectives matched/);
    // Compute takes most of a step, and more of the late rank's.
    const widths = (bar) => page.locator("#step-bar .bar").nth(bar).locator("i").evaluateAll((all) => all.map((one) => parseFloat(one.style.width)));
    const [mean, own] = [await widths(0), await widths(1)];
    for (const bar of [mean, own]) assert.ok(Math.abs(bar.reduce((sum, one) => sum + one, 0) - 100) < 0.1);
    assert.ok(own[0] > mean[0] && mean[0] > 30, `${own[0]} ${mean[0]}`);
    assert.match(await page.locator("#step-bar .step-bars").innerText(), new RegExp(`rank ${pages.lateRank} \\(late\\)`));
    assert.equal(await page.locator("#lateness .rows .late").innerText(), String(pages.lateRank));
    // The verdict stays above every group; what is asked for is seen.
    for (const [link, id] of [["A step", "step-budget"], ["Findings", "findings"], ["Every rank in a step", "lanes"]]) {
      await page.evaluate((hash) => document.querySelector(`#contents a[href='#${hash}']`).click(), id);
      await page.locator(`#${id}`).waitFor({state: "visible"});
      assert.equal(await page.locator(`#${id} h2`).innerText(), link);
      assert.ok(await page.locator("main > .verdict h1").isVisible());
    }
  },

  async "every rank in a step: nodes together, the late one framed, from step to step"() {
    const {page} = late;
    await see(page, "lanes");
    const canvas = page.locator("#lanes .lanes canvas");
    await page.waitForFunction(() => document.querySelector("#lanes .lanes canvas").dataset.drawn === "yes");
    const select = page.locator("#lanes select");
    assert.equal(await select.locator("option").count(), pages.steps);
    assert.match(await page.locator("#lanes p.note").last().innerText(), new RegExp(`All ${pages.steps} steps are here \\(\\d+ to \\d+\\)`));
    const pixels = () => canvas.evaluate((c) => c.toDataURL());
    const first = Number(await select.inputValue());
    const shown = await pixels();
    await page.locator("#lanes button", {hasText: first > 0 ? "previous" : "next"}).click();
    assert.equal(Number(await select.inputValue()), first > 0 ? first - 1 : first + 1);
    assert.notEqual(await pixels(), shown);
    await canvas.focus();
    await page.keyboard.press(first > 0 ? "ArrowRight" : "ArrowLeft");
    assert.equal(await pixels(), shown);
    // Rows from top to bottom: a node and its four ranks, twice. The late one waits less than the peer beside it.
    await canvas.scrollIntoViewIfNeeded();
    const box = await canvas.boundingBox();
    const told = new Map();
    for (let y = 24; y < box.height; y += 10) for (let x = 130; x < box.width - 6; x += 24) {
      await page.mouse.move(box.x + x, box.y + y);
      const text = await page.locator("#lanes output").innerText();
      const rank = Number(text.match(/^Rank (\d+)/)?.[1] ?? -1);
      told.set(rank, [...(told.get(rank) ?? []), text]);
    }
    assert.deepEqual([...told.keys()].filter((rank) => rank >= 0), [...Array(pages.ranks).keys()]);
    const waiting = (rank) => told.get(rank).filter((text) => text.includes("waits for who comes late")).length / told.get(rank).length;
    assert.ok(told.get(pages.lateRank).every((text) => text.includes("(late)")));
    assert.ok(waiting(4) > 0.2 && waiting(4) > 2 * waiting(pages.lateRank), `${waiting(4)} ${waiting(pages.lateRank)}`);
  },

  async "from the verdict to the evidence in two clicks"() {
    const {page} = late;
    const panel = page.locator("#collective");
    const selected = () => page.locator("#collective-choice").inputValue();
    await see(page, "collective");
    const first = await selected();
    // Why: one click, to a collective that the late one delayed, with its work beside a peer's.
    const last = await page.locator("#collective-choice option").count() - 1;
    await page.locator("#collective-choice").selectOption({index: last});
    assert.notEqual(await selected(), first);
    await see(page, "overview");
    await page.locator("#verdict a", {hasText: "see why"}).click();
    await panel.waitFor({state: "visible"});
    assert.equal(await selected(), first, "the page opens on the case that the verdict leads to");
    assert.match(await panel.innerText(), new RegExp(`Rank ${pages.lateRank}( on \\S+)? came last`));
    assert.match(await panel.locator("h3").first().innerText(), /beside its median peer/);
    const work = panel.locator("table[aria-label='Work before the collective']");
    assert.match(await work.locator("thead").innerText(), new RegExp(`rank ${pages.lateRank} \\(late\\)\\s+rank \\d+ \\(median peer\\)\\s+difference`));
    assert.match(await work.locator("tr", {hasText: "compute"}).innerText(), /compute/);
    // It stands there only: the list of all such collectives leads to it.
    assert.equal(await page.locator("table[aria-label='Work before the collective']").count(), 1);
    await page.locator("#cases tbody a").nth(2).click();
    assert.ok((await page.locator("#cases tbody a").nth(2).innerText()).endsWith(` ${await selected()}`));
    // When: to the heat map, and from a cell to a collective in which its trace rank waited.
    await see(page, "overview");
    await page.locator("#verdict a", {hasText: "see when"}).click();
    const canvas = page.locator("#heat canvas");
    await canvas.scrollIntoViewIfNeeded();
    const box = await canvas.boundingBox();
    await page.mouse.click(box.x + box.width / 2, box.y + 5);
    assert.match(await panel.locator("[aria-live] p.note").first().innerText(), /ank 0 at \S+ \w+/);
  },

  async "a cell of the heat map opens a collective of its own trace rank"() {
    const {page} = late;
    await see(page, "heat");
    const canvas = page.locator("#heat canvas");
    for (let row = 0; row < pages.ranks; ++row) {
      await canvas.scrollIntoViewIfNeeded();
      const box = await canvas.boundingBox();
      await page.mouse.click(box.x + 0.4 * box.width, box.y + (row + 0.5) * box.height / pages.ranks);
      const members = await page.locator("#collective table[aria-label='Arrivals'] tbody td:first-child").allTextContents();
      assert.ok(members.includes(String(row)), `row ${row} opened a collective of ${members}`);
    }
  },

  async "every finding leads to the view with its evidence, and to the tables that it names"() {
    const {page} = late;
    const links = await page.evaluate(() => [...document.querySelectorAll("#findings details a")].map((link) => [link.innerText || link.textContent, link.getAttribute("href")]));
    assert.ok(links.length >= 4);
    for (const [text, href] of links) {
      await see(page, href.slice(1));
      if (text.startsWith("Evidence: ")) assert.equal(await page.locator(`${href} h2`).innerText(), text.slice("Evidence: ".length));
      else if (text === "Timeline") assert.equal(href, "#timeline");
      else assert.match(await page.locator(href).innerText(), new RegExp(`^${text}:`));
    }
    assert.equal(links.find(([text]) => text.startsWith("Evidence: "))[1], "#cases", "of the straggler: what it did before the collectives that it delayed");
    // Also those that other jobs have.
    const ids = await page.evaluate(() => [...document.querySelectorAll("section, p.absent")].map((section) => section.id));
    for (const [finding, view] of Object.entries(viewOfFinding)) assert.ok(ids.includes(view), `${finding} leads to ${view}`);
  },

  async "levels, waits between ranks, bandwidth and run facts are those of report.json"() {
    const {page} = late;
    const report = JSON.parse(readFileSync(join(dirname(pages.late), "report.json"), "utf8"));
    await see(page, "levels");
    const headings = await page.locator("#levels h3").allInnerTexts();
    assert.deepEqual(headings, ["By node (2)", "By rail (4)", "By pipeline stage (2)", "By tensor index (2)", "By data index (2)", "Balance of the pipeline stages"]);
    const places = (level) => page.locator(`#levels table[aria-label='By ${level}'] tbody tr`);
    // The stage and the index that hold the late trace rank come first: their delays cost most.
    assert.match(await places("pipeline stage").first().innerText(), new RegExp(`^${pages.lateStage}\\s`));
    assert.match(await page.locator("#waits .chart").getAttribute("aria-label"), /Whose delays cost whom/);
    const heads = await page.locator("#ranks thead th").allInnerTexts();
    const column = heads.indexOf("bus bandwidth");
    const own = report.ranks.find((rank) => rank.trace_rank === pages.lateRank);
    assert.equal(await page.locator(`#ranks-${pages.lateRank} td`).nth(column).innerText(), `${Number(own.bus_bandwidth_gbs.toPrecision(4))} GB/s`);
    assert.equal(await page.locator("#facts tbody tr").count(), report.run_facts.reduce((rows, fact) => rows + fact.values.length, 0));
    await see(page, "facts");
    assert.match(await page.locator("#facts tr.marked").first().innerText(), /driver[^]*differs/);
    assert.equal(await page.locator("#budget .chart").count(), 2, "budget and overlap");
    await see(page, "overview");
    await page.locator("#verdict .quality summary").click();
    assert.match(await page.locator("#verdict .facts").innerText(), /Matched by\s+NCCL payload/);
    await page.locator("#verdict .quality summary").click();
  },

  async "names that are cut are told apart, and round numbers stand on axes"() {
    assert.deepEqual(apart(["short", "kernel_of_a_library<float, 4>", "kernel_of_a_library<half, 4>"], 18), ["short", "kernel\u2026ry<float, \u2026", "kernel\u2026ry<half, 4>"]);
    assert.deepEqual(apart(["kernel_of_a_library<float>", "kernel_of_a_library<float>"], 18), ["kernel_of_a_libra\u2026", "kernel_of_a_libra\u2026"]);
    assert.deepEqual(roundTicks(524.6e6, 1542e6, 6), [600e6, 800e6, 1000e6, 1200e6, 1400e6]);
    assert.deepEqual(roundTicks(-3, 4, 4), [-2, 0, 2, 4]);
  },

  async "headings are words, not names of columns"() {
    const {page} = late;
    const raw = await page.evaluate(() => [...document.querySelectorAll("thead th")].map((head) => head.textContent).filter((text) => text.includes("_")));
    assert.deepEqual(raw, []);
  },

  async "the heat map switches, zooms by mouse, step and keyboard, and back"() {
    const {page} = late;
    await see(page, "heat");
    assert.equal(await page.locator("#heat .step-lines i").count(), pages.steps - 1, "a line at the start of each step after the first collective");
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
    assert.match(await page.locator("#heat output").innerText(), /Rank 1\b/);
    for (let row = 1; row < pages.lateRank; ++row) await page.keyboard.press("ArrowDown");
    assert.match(await page.locator("#heat output").innerText(), /the others wait for it/);
    await page.keyboard.press("+");
    assert.ok(await width() < whole);
    await page.keyboard.press("-");
    assert.equal(await width(), whole);
  },

  async "the timeline opens at the moment of the late one, zooms, moves and searches"() {
    const {page, close} = await open(pages.late);
    await page.locator("#verdict a", {hasText: "see the timeline"}).click();
    const canvas = page.locator("#timeline canvas");
    await canvas.waitFor({state: "visible"});
    await page.waitForFunction(() => document.querySelector("#timeline canvas").dataset.drawn === "yes");
    assert.match(await page.locator("#timeline select option:checked").innerText(), new RegExp(`Rank ${pages.lateRank} comes late`));
    await page.waitForTimeout(100);
    const span = async () => Number(await canvas.getAttribute("data-span"));
    const first = await span();
    await page.locator("#timeline button", {hasText: "all"}).click();
    const whole = await span();
    assert.ok(Math.abs(whole / (2 * first) - 1) < 0.01, `${first} of ${whole}`);
    await canvas.focus();
    await page.keyboard.press("+");
    assert.ok(await span() < 0.7 * whole);
    await page.keyboard.press("0");
    assert.equal(await span(), whole);
    const before = await canvas.evaluate((c) => c.toDataURL());
    await page.locator("#timeline input[type=search]").fill("waits for rank");
    assert.notEqual(await canvas.evaluate((c) => c.toDataURL()), before);
    assert.ok(Number((await page.locator("#timeline .tally").innerText()).split(" ")[0].replace(",", "")) > 0);
    await page.locator("#timeline input[type=search]").press("Enter");
    assert.match(await page.locator("#timeline output").innerText(), /waits for rank/);
    assert.ok(await span() < whole);
    // Under the pointer: a box has its name.
    await page.locator("#timeline input[type=search]").fill("");
    await page.locator("#timeline button", {hasText: "all"}).click();
    const box = await canvas.boundingBox();
    const told = new Set();
    for (let x = 200; x < box.width; x += 40) for (let y = 50; y < 130; y += 15) {
      await page.mouse.move(box.x + x, box.y + y);
      told.add(await page.locator("#timeline output").innerText());
    }
    assert.ok([...told].some((text) => new RegExp(`^Rank ${pages.lateRank}: .*, [\\d.]+ [num]?s, at `).test(text)), [...told].join("\n"));
    // The last of the moments is a usual step.
    await page.locator("#timeline select").first().selectOption({index: await page.locator("#timeline select option").count() - 1});
    assert.match(await page.locator("#timeline select option:checked").innerText(), /^Steps/);
    await close();
  },

  async "a moment goes to Perfetto: the file, then the span"() {
    const {page, close} = await open(pages.late);
    await see(page, "timeline");
    await page.locator("#timeline summary", {hasText: "Perfetto"}).click();
    await page.evaluate(() => {
      const tab = new MessageChannel().port1;  // in place of a window
      window.posted = [];
      tab.postMessage = (message, target) => {
        window.posted.push([target, message]);
        if (message === "PING") setTimeout(() => window.dispatchEvent(new MessageEvent("message", {data: "PONG", source: tab})));
      };
      window.open = (address) => { window.posted.push(address); return tab; };
    });
    await page.locator("#timeline input[type=file]").setInputFiles({name: "job.json.gz", mimeType: "application/gzip", buffer: Buffer.from("abc")});
    await page.locator("#timeline button", {hasText: "Open at this moment"}).click();
    await page.waitForFunction(() => window.posted.some((one) => one[1]?.perfetto?.timeStart !== undefined));
    const posted = await page.evaluate(() => window.posted.map((one) => Array.isArray(one) && one[1].perfetto?.buffer ? [one[0], one[1].perfetto.buffer.byteLength] : one));
    assert.equal(posted[0], "https://ui.perfetto.dev");
    assert.deepEqual(posted.find((one) => one[1] === 3), ["https://ui.perfetto.dev", 3]);
    const [, {perfetto: {timeStart, timeEnd}}] = posted.at(-1);
    const report = JSON.parse(readFileSync(join(dirname(pages.late), "report.json"), "utf8"));
    assert.ok(Math.abs((timeEnd - timeStart) * 1e9 / (2 * report.step_time.median_ns) - 1) < 0.02);
    assert.match(await page.locator("#timeline code").innerText(), /--perfetto-window [\d.]+m?s\/[\d.]+m?s/);
    await close();
  },

  async "key figures are those of the tables, in one line that opens"() {
    const {page} = late;
    const {gpu, idle, limit, limitShare, frameworks} = pages.figures;
    await see(page, "figures");
    const details = page.locator("#figures details");
    assert.equal(await details.evaluate((one) => one.open), false);
    const line = await details.locator("summary").innerText();
    assert.match(line, new RegExp(`GPU time: \\S+ \\w+ \\(${gpu.toFixed(1)}% of the windows\\)`));
    assert.match(line, new RegExp(`CPU time \\(no GPU work\\): \\S+ \\w+ \\(${idle.toFixed(1)}%\\)`));
    const names = {compute_ns: "compute", arrival_skew_ns: "waiting for who comes late"};
    assert.ok(line.includes(`Limited by: ${names[limit]} (${limitShare.toFixed(1)}%)`), `${line}; ${limit} ${limitShare}`);
    assert.ok(frameworks.length > 0 && line.includes(`Frameworks seen: ${frameworks.join("; ")}`), line);
    await details.locator("summary").focus();
    await page.keyboard.press("Enter");
    assert.equal(await details.locator("dd").count(), 4);
    await page.keyboard.press("Enter");
  },

  async "the waterfall holds as many kernels as reach the share that is chosen"() {
    const {page} = late;
    await see(page, "kernels");
    const {kernels} = pages.figures;
    const slider = page.locator("#kernels input[type=range]");
    const until = (share) => kernels.findIndex(([, reached]) => reached >= share / 100) + 1;
    const told = page.locator("#kernels output");
    for (const share of [90, 80, 60]) {
      await slider.fill(String(share));
      const [, shown, all, reached] = (await told.innerText()).match(new RegExp(`^\\d+%: (\\d+) of (\\d+) kernels hold ([\\d.]+)% of .* on ${pages.ranks} ranks$`));
      assert.deepEqual([Number(shown), Number(all), reached], [until(share), kernels.length, (100 * kernels[until(share) - 1][1]).toFixed(1)]);
    }
    await slider.focus();
    await page.keyboard.press("ArrowRight");
    assert.match(await told.innerText(), /^61%/);
    await page.locator("#kernels summary", {hasText: "As a table"}).click();
    const cells = await page.locator("#kernels table[aria-label='Kernels added up'] tbody tr").evaluateAll((rows) => rows.map((row) => [row.children[0].title, row.children[4].textContent]));
    assert.deepEqual(cells.slice(0, 12), kernels.slice(0, 12).map(([name, reached]) => [name, `${(100 * reached).toFixed(1)}%`]));
  },

  async "the longest operations are those of the trace, all or communication alone"() {
    const {page, close} = await open(pages.one);
    await see(page, "longest");
    const moment = await page.evaluate(() => JSON.parse(document.getElementById("data").textContent).moments.list[0]);
    const inside = JSON.parse(readFileSync(pages.operations, "utf8")).filter(([start, length]) => start >= moment.start_ns && start + length <= moment.end_ns);
    const longest = (list) => list.map(([, length]) => length).sort((a, b) => b - a).slice(0, 50).reduce((sum, one) => sum + one, 0);
    const told = page.locator("#longest output").first();
    const milliseconds = async () => Number((await told.innerText()).match(/^The longest \d+ of [\d,]+ operations take ([\d.]+) ms/)[1]);
    const near = (value, expected) => assert.ok(Math.abs(value / (expected / 1e6) - 1) < 1e-3, `${value} ms for ${expected} ns`);
    near(await milliseconds(), longest(inside));
    await page.locator("#longest input[type=checkbox]").focus();
    await page.keyboard.press("Space");
    await page.waitForFunction(() => document.querySelector("#longest input[type=checkbox]").checked);
    await page.locator("#longest summary").click();
    const cells = await page.locator("#longest tbody tr").evaluateAll((rows) => rows.map((row) => [row.children[2].textContent, row.children[5].textContent]));
    assert.ok(cells.every(([kind]) => kind === "communication"));
    // Shorter ones, far from the moment, are left out.
    const sizes = {us: 1e3, ms: 1e6};
    const shown = cells.map(([, text]) => { const [size, unit] = text.split(" "); return Number(size) * sizes[unit]; }).filter((length) => length >= 175e3).sort((a, b) => b - a);
    const communication = inside.filter(([, length, isCommunication]) => isCommunication && length >= 175e3).map(([, length]) => length).sort((a, b) => b - a);
    assert.ok(communication.length > 20, "with some of them");
    assert.deepEqual(shown.map((length) => Number(length.toPrecision(4))), communication.map((length) => Number(length.toPrecision(4))));
    await close();
  },

  async "the trace's own metrics place kernels under the roof"() {
    const {page} = late;
    await see(page, "roofline");
    // Compute is the busier unit, here the tensor cores, memory what is read and written: one kernel lies under each roof.
    const cells = await page.locator("#roofline table[aria-label*='under the roof'] tbody tr").evaluateAll((rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent)));
    const expected = pages.planted.map(({tensor, read, write}, i) => [pages.sampled[i], `${tensor}%`, "tensor cores", `${read + write}%`, String(Number((tensor / (read + write)).toPrecision(3))),
      tensor < read + write ? "memory" : "compute"]);
    assert.deepEqual(cells.filter(([name]) => pages.sampled.includes(name)).map(([name, , ...others]) => [name, ...others]).sort(), expected.sort());
    assert.deepEqual(expected.map((row) => row.at(-1)).sort(), ["compute", "memory"]);
  },

  async "a trace rank can be chosen for what is shown over time"() {
    const {page} = late;
    for (const id of ["nvlink", "utilisation", "roofline"]) {
      await see(page, id);
      const select = page.locator(`#${id} select`).last();  // of a roofline by metrics and one by Nsight Compute
      assert.equal(await select.inputValue(), String(pages.lateRank), id);
      await select.selectOption("0");
      await page.waitForSelector(`#${id} .chart[aria-label*="rank 0"]`);
    }
  },

  async "tables sort both ways, search, filter by column and go to a spreadsheet"() {
    const {page} = late;
    await see(page, "ranks");
    const head = page.locator("#ranks thead button", {hasText: "own lateness"});
    const first = page.locator("#ranks tbody tr").first().locator("td").first();
    await head.click();
    assert.equal(await first.innerText(), String(pages.lateRank));
    await head.click();
    assert.notEqual(await first.innerText(), String(pages.lateRank));
    const search = page.locator("#ranks input[type=search]");
    const rows = page.locator("#ranks tbody tr");
    await search.fill("trace_rank<3 node000");
    assert.deepEqual((await page.locator("#ranks tbody td:first-child").allInnerTexts()).sort(), ["0", "1", "2"]);
    await search.fill("own_lateness>100ms");
    assert.deepEqual(await page.locator("#ranks tbody td:first-child").allInnerTexts(), [String(pages.lateRank)]);
    const [file] = await Promise.all([page.waitForEvent("download"), page.locator("#ranks button", {hasText: "CSV"}).click()]);
    const [names, row, end] = readFileSync(await file.path(), "utf8").split("\r\n");
    const report = JSON.parse(readFileSync(join(dirname(pages.late), "report.json"), "utf8"));
    assert.equal(row.split(",")[names.split(",").indexOf("own_lateness_ns")], String(report.ranks[pages.lateRank].own_lateness_ns));
    assert.equal(end, "");
    await search.fill("");
    assert.equal(await rows.count(), pages.ranks);
    // Every table has the three.
    await readAll(page);
    assert.deepEqual(await page.evaluate(() => [...document.querySelectorAll("table")].filter((table) => {
      const all = table.closest(".table");
      return !all?.querySelector("input[type=search]") || !all.querySelector(".tools button") || !table.querySelector("thead button");
    }).map((table) => table.getAttribute("aria-label"))), []);
  },

  async "late trace ranks are among the rows of every table that has trace ranks"() {
    const {page, close} = await open(pages.large);
    for (const [section, label] of [["kernels", "kernels"], ["ranks", "Ranks"], ["strips", "GPU speed"]]) {
      await see(page, section);
      const heads = await page.locator(`#${section} table[aria-label='${label}'] thead th`).allInnerTexts();
      const column = await page.locator(`#${section} table[aria-label='${label}'] tbody td:nth-child(${heads.findIndex((head) => /^(trace )?rank$/.test(head)) + 1})`).allInnerTexts();
      assert.ok(column.includes(String(pages.largeLateRank)), `${label}: ${column.slice(0, 20)}`);
    }
    // Sums are those of all ranks, though the page lists the rows of some.
    await see(page, "kernels");
    assert.match(await page.locator("#kernels output").innerText(), / on 1,024 ranks$/);
    // Labels of late rows do not overprint each other.
    await see(page, "heat");
    const tops = await page.locator("#heat .rows span").evaluateAll((spans) => spans.map((span) => span.getBoundingClientRect().top).sort((a, b) => a - b));
    for (let i = 1; i < tops.length; ++i) assert.ok(tops[i] - tops[i - 1] >= 9, `labels at ${tops[i - 1]} and ${tops[i]}`);
    await close();
  },

  async "values are words and have their units: no flags as 1 and 0, no -1 for unknown"() {
    const {page} = late;
    await see(page, "tables");
    await page.evaluate(() => { for (const details of document.querySelectorAll("#tables details")) details.open = true; });
    await page.waitForFunction(() => [...document.querySelectorAll("#tables details")].every((details) => details.children[1].hasChildNodes()));
    const cells = (table, title) => page.evaluate(([name, head]) => {
      const found = document.getElementById(`tables-${name}`);
      const column = [...found.querySelectorAll("thead th")].findIndex((one) => one.textContent === head);
      return [...new Set([...found.querySelectorAll("tbody tr")].map((row) => row.children[column].textContent))];
    }, [table, title]);
    assert.deepEqual((await cells("kernels", "communication")).sort(), ["no", "yes"]);
    assert.ok((await cells("nvtx_trace", "parent id")).includes("-"));
    assert.ok((await cells("memory_transfers", "bandwidth")).every((text) => /^[\d.]+ [kMGT]?B\/s$/.test(text)));
    const odd = await page.evaluate(() => [...document.querySelectorAll("td")].map((cell) => cell.textContent).filter((text) => /^-1( ns)?$|^-?\d(\.\d+)?e-1\d$/.test(text)));
    assert.deepEqual(odd, []);
    await page.evaluate(() => { for (const details of document.querySelectorAll("#tables details")) details.open = false; });
  },

  async "a report of 1,024 trace ranks is small and opens in less than two seconds"() {
    const {page, complaints, seconds, close} = await open(pages.large);
    const bytes = statSync(pages.large).size;
    console.log(`        1,024 trace ranks: ${(bytes / 1e6).toFixed(1)} MB, ${seconds.toFixed(2)} s of the main thread until all of it can be used`);
    assert.ok(bytes < 5e6, `${bytes} bytes`);
    assert.ok(seconds > 0.05 && seconds < 2, `${seconds} s`);
    await see(page, "heat");
    assert.equal(await page.locator("#heat canvas").evaluate((canvas) => canvas.height), 1024);
    await see(page, "overview");
    assert.match(await page.locator("#verdict li").first().innerText(), new RegExp(`^Rank ${pages.largeLateRank}: `));
    await readAll(page);
    assert.deepEqual(complaints, []);
    assert.equal(await page.locator("text=could not be drawn").count(), 0);
    await close();
  },

  async "a phone shows all of it without scrolling sideways"() {
    const phone = {width: 390, height: 800};
    const {page, complaints, close} = await open(pages.late, phone);
    await readAll(page, phone, async (group) =>
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), phone.width, group));
    assert.deepEqual(complaints, []);
    await close();
  },

  async "texts stand out from their background, light and dark"() {
    const {page} = late;
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({colorScheme});
      const faint = [];
      await readAll(page, viewport, async () => faint.push(...await page.evaluate(() => {
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
      })));
      assert.deepEqual(faint, [], colorScheme);
    }
    await page.emulateMedia({colorScheme: "light"});
  },

  async "everything that takes the focus has a name, and headings nest"() {
    const {page, close} = await open(pages.late);
    // By keyboard alone: past the contents to the report, and to the first link of the verdict.
    await page.keyboard.press("Tab");
    const focused = () => page.evaluate(() => document.activeElement.innerText);
    assert.equal(await focused(), "Skip to the report");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    assert.match(await focused(), /^Rank/);
    assert.notEqual(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), "none");
    await readAll(page);
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
    await close();
  },

  async "without GPU work the page is not green, tells what the hosts did, and advises what the verdict does"() {
    const {page, complaints, close} = await open(pages.hosts);
    const report = JSON.parse(readFileSync(join(dirname(pages.hosts), "report.json"), "utf8"));
    assert.equal(await page.locator("main > .verdict h1").innerText(), report.verdict.text);
    assert.equal(await page.locator(".verdict.good").count(), 0);
    assert.equal(await page.locator(".verdict.warn").count(), 1);
    const facts = await page.locator("dl.facts").innerText();
    assert.match(facts, /Processes without GPU work\s+2\b/);
    assert.match(facts, /Waiting in collectives\s+not known/);
    assert.equal(await page.locator("text=worth acting on").count(), 0);
    await readAll(page);
    await see(page, "processes");
    const text = await page.locator("#processes").innerText();
    for (const {path} of report.host_processes) assert.ok(text.includes(path.split("/").at(-1)), path);
    for (const {name} of report.activity.api_calls.slice(0, 2)) assert.ok(text.includes(name), name);
    // To record CUDA is no advice where it was recorded.
    assert.equal(await page.locator("p.absent code", {hasText: "-t cuda"}).count(), 0);
    assert.deepEqual(complaints, []);
    await close();
  },

  async "a single trace says what is missing"() {
    const {page, complaints, close} = await open(pages.one);
    await readAll(page);
    assert.deepEqual(complaints, []);
    assert.equal(await page.locator("text=could not be drawn").count(), 0);
    const lines = await page.locator("p.absent").allTextContents();
    assert.ok(lines.length > 4, lines.join("\n"));
    assert.ok(lines.some((line) => line.startsWith("Who waits when: ") && line.includes("nsys profile")), lines.join("\n"));
    await close();
  },

  async "hostile names are only text"() {
    const {page, complaints, close} = await open(pages.hostile);
    await readAll(page);
    await see(page, "tables");
    await page.evaluate(() => { for (const details of document.querySelectorAll("#tables details")) details.open = true; });
    await page.waitForFunction(() => [...document.querySelectorAll("#tables details")].every((details) => details.children[1].hasChildNodes()));
    assert.deepEqual(complaints, []);
    assert.equal(await page.evaluate(() => window.harmed), undefined);
    assert.equal(await page.locator("img").count(), 0);
    await close();
  },
};

let failed = 0;
const wanted = new RegExp(process.env.NSYS_EXPLAIN_BROWSER_TESTS ?? "");  // to try some of them by name
for (const [name, test] of Object.entries(tests).filter(([name]) => wanted.test(name))) {
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
