// A page of Chromium, driven by lines of JSON: one request a line on stdin, one answer a line on stdout.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [modules, executablePath] = process.argv.slice(2);
const { chromium } = createRequire(`${modules}/`)("playwright-core");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
const page = await browser.newPage({ viewport: { width: 1440, height: 860 }, deviceScaleFactor: 1 });

const located = ({ selector, text, index }) => {
  const found = page.locator(selector, text === undefined ? {} : { hasText: text });
  return index === undefined ? found.first() : found.nth(index);
};

const requests = {
  goto: ({ url, timeout }) => page.goto(url, { timeout }).then(() => null),
  wait: (request) => located(request).waitFor({ state: request.state ?? "visible", timeout: request.timeout }).then(() => null),
  click: (request) => located(request).click({ timeout: request.timeout, clickCount: request.count ?? 1 }),
  hover: (request) => located(request).hover({ timeout: request.timeout }),
  press: ({ keys }) => page.keyboard.press(keys),
  type: ({ characters }) => page.keyboard.type(characters),
  insert: ({ characters }) => page.keyboard.insertText(characters),
  texts: ({ selector }) => page.locator(selector).allTextContents(),
  attribute: (request) => located(request).getAttribute(request.name, { timeout: request.timeout }),
  scroll: async ({ pixels, ...request }) => {
    await located(request).hover({ timeout: request.timeout });
    await page.mouse.wheel(0, pixels);
  },
  screenshot: ({ path }) => page.screenshot({ path, animations: "disabled", caret: "hide" }).then(() => null),
};

process.stdout.write("{}\n");
for await (const line of createInterface({ input: process.stdin })) {
  const { request, ...given } = JSON.parse(line);
  let answer;
  try {
    answer = { value: (await requests[request](given)) ?? null };
  } catch (reason) {
    answer = { error: String(reason.message ?? reason) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
