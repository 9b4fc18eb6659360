// node service.mjs DIRECTORY_OF_NODE_MODULES JSON: the pages of a running service as a user uses them.
import assert from "node:assert/strict";
import {createRequire} from "node:module";
import {readFileSync} from "node:fs";
import {join} from "node:path";

const [modules, given] = process.argv.slice(2);
const {chromium: executablePath, url, token, files, hostile, stores, dashboards, sampled, planted} = JSON.parse(given);
const {chromium} = createRequire(join(modules, "package.json"))("playwright-core");
const browser = await chromium.launch({executablePath, args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"]});

async function open(path, width, colorScheme) {
  const context = await browser.newContext({viewport: {width, height: 900}, colorScheme, httpCredentials: {username: "me", password: token}});
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) complaints.push(message.text()); });
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => { if (!request.url().startsWith(url) && !/^(data|blob):/.test(request.url())) complaints.push(`asked for ${request.url()}`); });
  page.complaints = complaints;
  await page.goto(url + path);
  return page;
}

// The page lies within its window, and nothing of it was refused.
async function isWhole(page) {
  const {wide, window, harmed} = await page.evaluate(() => ({wide: document.documentElement.scrollWidth, window: innerWidth, harmed: globalThis.harmed}));
  assert.ok(wide <= window, `${page.url()}: ${wide} pixels in a window of ${window}`);
  assert.equal(harmed, undefined);
  assert.deepEqual(page.complaints, []);
}

const tests = {
  async "the list and a report lie within wide and narrow windows, light and dark, and names do nothing"() {
    for (const [width, colour] of [[1300, "light"], [1300, "dark"], [420, "light"], [420, "dark"]]) {
      for (const path of ["/", "/reports/after", `/reports/${encodeURIComponent(hostile)}`]) {
        const page = await open(path, width, colour);
        await page.locator("h1").waitFor();
        if (path === "/") {
          assert.equal(await page.locator("table.reports tbody tr").count(), 3);
          assert.ok((await page.locator("table.reports").innerText()).includes(hostile));
        }
        await isWhole(page);
        await page.context().close();
      }
    }
  },

  async "a comparison of two reports is a click away, and a report's own page works without an origin"() {
    const page = await open("/", 1300, "light");
    await page.locator('input[name=before][value="before"]').check();
    await page.locator('input[name=after][value="after"]').check();
    await page.locator("form[action='/compare']:not(#drop) button").click();
    // The form names them in the order of their rows.
    await page.waitForURL(`${url}/compare?after=after&before=before`);
    assert.match(await page.locator("body").innerText(), /before[\s\S]*after/);
    assert.deepEqual(await page.locator("#both a").evaluateAll((links) => links.map((link) => link.getAttribute("href"))),
      ["before", "after"].flatMap((name) => ["longest", "roofline", "lanes"].map((view) => `/reports/${name}/report.html#${view}`)));
    await page.locator("#both a", {hasText: "longest operations"}).last().click();
    await page.locator("#longest .chart").waitFor({state: "visible"});
    await page.goBack();
    await isWhole(page);
    await page.goto(`${url}/reports/after`);
    await page.getByRole("link", {name: "The whole report"}).click();
    await page.waitForSelector("html[data-ready]");
    assert.equal(await page.evaluate(() => origin), "null");
    assert.equal(await page.evaluate((address) => fetch(address).then(() => "reached", () => "not reached"), `${url}/api/v1/reports`), "not reached");
    page.complaints.length = 0;  // it complains of that
    await page.evaluate(() => { location.hash = "store"; });
    await page.locator("#store").waitFor({state: "visible"});
    await isWhole(page);
    await page.context().close();
  },

  async "two stores dropped on the page are compared: the older one is before; key figures and kernels are those of the tables"() {
    const page = await open("/", 1300, "light");
    await page.setInputFiles("#after", []);
    // What a drop hands over, with the times of the files.
    await page.evaluate(async (given) => {
      const transfer = new DataTransfer();
      for (const [name, base64, lastModified] of given) {
        const bytes = Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
        transfer.items.add(new File([bytes], name, {lastModified}));
      }
      document.getElementById("drop").dispatchEvent(new DragEvent("drop", {dataTransfer: transfer, bubbles: true, cancelable: true}));
    }, [["slow.h5", readFileSync(stores[1]).toString("base64"), 2000], ["fixed<b>.h5", readFileSync(stores[0]).toString("base64"), 1000]]);
    await page.waitForURL(`${url}/compare`);
    assert.match(await page.locator("h1").innerText(), /^Slower: /);
    assert.match(await page.locator("body").innerText(), /slow\.h5 \(after\) against fixed<b>\.h5 \(before\)\./);
    await page.locator("#figures summary").click();
    const cells = await page.locator("#figures tbody tr").evaluateAll((rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent)));
    const [fixed, slow] = dashboards;
    const change = (field) => 100 * (slow[field] / fixed[field] - 1);
    const near = (text, expected) => assert.ok(Math.abs(parseFloat(text) - expected) < 0.006, `${text} for ${expected}`);
    near(cells[0][3], change("gpuStep"));
    near(cells[1][3], change("idleStep"));
    for (const [i, one] of dashboards.entries()) assert.equal(cells[2][1 + i], `${one.limit.replace(/_ns$/, "").replaceAll("_", " ")} (${one.limitShare.toFixed(1)}%)`);
    assert.deepEqual(cells[3].slice(1), [fixed.frameworks[0], slow.frameworks[0], "same"]);
    // The waterfall, at the share that the keyboard chooses.
    await page.locator("#waterfall summary").click();
    const seen = () => page.locator("#waterfall tbody tr:visible").evaluateAll((rows) => rows.map((row) => [row.children[0].textContent, row.children[5].textContent]));
    const until = (share) => slow.kernels.slice(0, slow.kernels.findIndex(([, reached]) => reached >= share) + 1).map(([name, reached]) => [name, `${(100 * reached).toFixed(1)}%`]);
    assert.deepEqual(await seen(), until(0.9));
    await page.locator("#until-90").focus();
    await page.keyboard.press("ArrowLeft");
    assert.deepEqual(await seen(), until(0.8));
    assert.match(await page.locator("#waterfall .told:visible").innerText(), new RegExp(`^${until(0.8).length} of ${slow.kernels.length} kernels hold ${until(0.8).at(-1)[1]}`));
    const [name] = slow.kernels[0];
    const row = await page.locator("#waterfall tbody tr").first().evaluate((one) => [...one.children].map((cell) => cell.textContent));
    near(row[4], 100 * (slow.times[name] / fixed.times[name] - 1));
    // Only the run after was sampled.
    await page.locator("#roofline summary").click();
    const uses = await page.locator("#roofline tbody tr").evaluateAll((rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent)));
    planted.forEach(({tensor, read, write}, i) => assert.deepEqual(uses.find(([kernel]) => kernel === sampled[i]).slice(1),
      [`${tensor}%, tensor cores`, `${read + write}%`, tensor < read + write ? "memory" : "compute", "-", "-", "-"]));
    await page.setViewportSize({width: 420, height: 900});
    await isWhole(page);
    await page.context().close();
  },

  async "exports are uploaded, analysed and listed; a bad name is told"() {
    const page = await open("/", 420, "light");
    await page.fill("#name", "after");
    await page.setInputFiles("#files", files);
    await page.getByRole("button", {name: "Upload and analyse"}).click();
    await page.locator("#told", {hasText: "there is something named 'after' already"}).waitFor();
    page.complaints.length = 0;  // the browser tells of status 409, too
    await page.fill("#name", "uploaded");
    await page.getByRole("button", {name: "Upload and analyse"}).click();
    await page.locator("table.reports a", {hasText: "uploaded"}).waitFor();
    await page.locator("table.reports a", {hasText: "uploaded"}).click();
    await page.locator("h1", {hasText: "uploaded"}).waitFor();
    await isWhole(page);
    await page.context().close();
  },
};

let failures = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    console.log(`ok: ${name}`);
  } catch (error) {
    failures += 1;
    console.log(`FAILED: ${name}\n${error.stack}`);
  }
}
await browser.close();
process.exit(failures === 0 ? 0 : 1);
