import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

// Every core works (by itself vitest leaves one for an editor); what measures time then runs alone (package.json).
export default defineConfig({
  test: { include: ["test/**/*.test.ts"], testTimeout: 120_000, maxWorkers: availableParallelism() },
});
