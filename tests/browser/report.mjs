// node report.mjs DIRECTORY_OF_NODE_MODULES JSON: checks the pages as a user uses them.
import assert from "node:assert/strict";
import {createRequire} from "node:module";
import {join} from "node:path";

const [modules, given] = process.argv.slice(2);
const pages = JSON.parse(given);
const {chromium} = createRequire(join(modules, "package.json"))("playwright-core");
const browser = await chromium.launch({executablePath: pages.chromium, args: ["--no-sandbox", "--disable-gpu", "--disable-quic",
  "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]});

async function open(path, colorScheme = "light") {
  const context = await browser.newContext({viewport: {width: 1300, height: 900}, colorScheme});
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) complaints.push(message.text()); });
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => { if (!request.url().startsWith("file:") && !request.url().startsWith("data:")) complaints.push(`asked for ${request.url()}`); });
  await page.goto(`file://${path}`);
  await page.waitForSelector("html[data-ready]");
  return {page, complaints, close: () => context.close()};
}

// Scrolls through, so that every chart is drawn.
async function readAll(page) {
  const height = await page.evaluate(() => document.body.scrollHeight);
  for (let y = 0; y < height + 900; y += 600) {
    await page.evaluate((to) => window.scrollTo(0, to), y);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  }
  for (const chart of await page.locator(".chart:visible").all()) {
    await chart.scrollIntoViewIfNeeded();
    await page.waitForFunction((element) => element.dataset.drawn === "yes", await chart.elementHandle());
  }
}

const tests = {
  async "every view is drawn, without complaint and without the network"() {
    for (const scheme of ["light", "dark"]) {
      const {page, complaints, close} = await open(pages.late, scheme);
      await readAll(page);
      assert.deepEqual(complaints, []);
      assert.equal(await page.locator("text=could not be drawn").count(), 0);
      for (const id of ["verdict", "findings", "heat", "collective", "cases", "ranks", "budget", "levels", "communicators", "bandwidth", "nvlink",
        "kernels", "strips", "categories", "utilisation", "roofline", "latency", "concurrency", "idle", "host", "phases", "clocks", "tables", "warnings"]) {
        assert.equal(await page.locator(`section#${id}`).count(), 1, id);
        assert.ok((await page.locator(`section#${id}`).innerText()).length > 20, `${id} is empty`);
      }
      await close();
    }
  },

  async "from the verdict to the evidence in two clicks"() {
    const {page, close} = await open(pages.late);
    assert.match(await page.locator("#verdict h1").innerText(), new RegExp(`Trace rank ${pages.lateRank} is late`));
    await page.locator("#verdict a", {hasText: "see when"}).click();
    const canvas = page.locator("#heat canvas");
    await canvas.scrollIntoViewIfNeeded();
    const box = await canvas.boundingBox();
    await page.mouse.click(box.x + box.width / 2, box.y + 5);
    const panel = page.locator("#collective");
    assert.match(await panel.innerText(), new RegExp(`Trace rank ${pages.lateRank}( on \\S+)? came last`));
    assert.ok(await panel.locator("tr.marked").count() >= 1, "the late rank is marked among the arrivals");
    await close();
  },

  async "the heat map switches, zooms by mouse and by keyboard, and back"() {
    const {page, close} = await open(pages.late);
    const canvas = page.locator("#heat canvas");
    await canvas.scrollIntoViewIfNeeded();
    const whole = await canvas.evaluate((c) => c.width);
    const pixels = () => canvas.evaluate((c) => c.toDataURL());
    const waiting = await pixels();
    await page.locator("#heat button", {hasText: "own lateness"}).click();
    assert.notEqual(await pixels(), waiting);
    const box = await canvas.boundingBox();
    await page.mouse.move(box.x + box.width * 0.25, box.y + 10);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, box.y + 10, {steps: 4});
    await page.mouse.up();
    const zoomed = await canvas.evaluate((c) => c.width);
    assert.ok(zoomed < whole / 3 && zoomed > whole / 6, `${zoomed} of ${whole} bins`);
    await page.locator("#heat button", {hasText: "whole run"}).click();
    assert.equal(await canvas.evaluate((c) => c.width), whole);
    await canvas.focus();
    await page.keyboard.press("ArrowDown");
    assert.match(await page.locator("#heat output").innerText(), /Trace rank 1\b/);
    await page.keyboard.press("+");
    assert.ok(await canvas.evaluate((c) => c.width) < whole);
    await page.keyboard.press("-");
    assert.equal(await canvas.evaluate((c) => c.width), whole);
    await close();
  },

  async "tables sort both ways"() {
    const {page, close} = await open(pages.late);
    const head = page.locator("#ranks thead button", {hasText: "own lateness"});
    await head.click();
    assert.equal(await page.locator("#ranks tbody tr").first().locator("td").first().innerText(), String(pages.lateRank));
    await head.click();
    assert.notEqual(await page.locator("#ranks tbody tr").first().locator("td").first().innerText(), String(pages.lateRank));
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
    for (const summary of await page.locator("#tables summary").all()) await summary.click();
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
