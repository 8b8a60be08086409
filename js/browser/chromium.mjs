// Which Chromium the browser tests run in. Without one they are skipped, and with CI=true they fail.
import { accessSync } from "node:fs";

export const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) => {
  try {
    accessSync(path);
    return true;
  } catch {
    return false;
  }
});
if (!executablePath) {
  if (process.env.CI === "true") throw new Error("no Chromium: apt-get install chromium");
  console.log("SKIPPED: browser tests need Chromium (apt-get install chromium)");
  process.exit(0);
}

export const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"];
args.push("--disable-component-update", "--disable-sync");
