// node service.mjs DIRECTORY_OF_NODE_MODULES JSON: the pages of a running service as a user uses them.
import assert from "node:assert/strict";
import {createRequire} from "node:module";
import {join} from "node:path";

const [modules, given] = process.argv.slice(2);
const {chromium: executablePath, url, token, files, hostile} = JSON.parse(given);
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
    await page.locator("form[action='/compare'] button").click();
    // The form names them in the order of their rows.
    await page.waitForURL(`${url}/compare?after=after&before=before`);
    assert.match(await page.locator("body").innerText(), /before[\s\S]*after/);
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
