// Opens a page in Chromium at several widths: node look.cjs BROWSER PAGE [pictures]
// Prints what axe-core finds, and fails for serious faults, requests, CSP reports, scripts and overflow.
const fs = require("fs");
const { chromium } = require("playwright-core");

const [browser, page, pictures] = process.argv.slice(2);
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const looks = [["1280", 1280, "light"], ["390", 390, "light"], ["dark", 1280, "dark"], ["390-dark", 390, "dark"]];
const out = page.replace(/\.html$/, "");

async function look(chrome, name, width, colorScheme) {
  const context = await chrome.newContext({ viewport: { width, height: 900 }, colorScheme });
  const tab = await context.newPage();
  const said = [];
  tab.on("console", (message) => said.push(message.text()));
  tab.on("request", (request) => request.url().startsWith("file:") || said.push(request.url()));
  await tab.goto("file://" + page);
  const wide = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  if (wide > 0) said.push(`${wide} pixels too wide`);
  if (pictures) await tab.screenshot({ path: `${out}-${name}.png`, fullPage: true });
  await context.close();
  // axe-core is a script, which the page's own policy would not run.
  const open = await chrome.newContext({ viewport: { width, height: 900 }, colorScheme, bypassCSP: true });
  const checked = await open.newPage();
  // Nothing of the page is a script; without its policy, one that came from data would run.
  checked.on("dialog", (dialog) => said.push(`runs: ${dialog.message()}`) && dialog.dismiss());
  await checked.goto("file://" + page);
  await checked.evaluate(axe);
  const { violations, passes } = await checked.evaluate(() => axe.run());
  await open.close();
  const found = violations.map((v) => `${v.impact} ${v.id}: ${v.nodes[0].target}`);
  console.log(`${name}: axe-core passes ${passes.length} rules, finds ${found.join("; ") || "nothing"}`);
  said.forEach((text) => console.log(`${name}: ${text}`));
  return said.length === 0 && !violations.some((v) => ["serious", "critical"].includes(v.impact));
}

(async () => {
  const chrome = await chromium.launch({ executablePath: browser, args: quiet });
  let good = true;
  for (const [name, width, scheme] of looks) good = (await look(chrome, name, width, scheme)) && good;
  if (pictures) {
    const tab = await chrome.newPage({ viewport: { width: 1280, height: 900 } });
    await tab.goto("file://" + page);
    const pdf = await tab.pdf({ path: `${out}.pdf`, format: "A4", printBackground: true });
    const pages = pdf.toString("latin1").match(/\/Type\s*\/Page[^s]/g).length;
    console.log(`print: ${pages} pages`);
    good = good && pages <= 5;
    const contexts = await tab.$("#contexts");
    if (contexts) await contexts.screenshot({ path: `${out}-1280-contexts.png` });
    // As paper shows it: what is within the margins of A4, at 96 dots an inch.
    await tab.emulateMedia({ media: "print" });
    await tab.setViewportSize({ width: 694, height: 1023 });
    await tab.screenshot({ path: `${out}-print.png`, fullPage: true });
  }
  await chrome.close();
  process.exit(good ? 0 : 1);
})();
