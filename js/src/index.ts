/**
 * What ships to people's browsers: record in, private report out.
 *
 *     const client = await Client.load("/release/client/");
 *     const report = await client.report({ power: 1.2, gas: 0.4 });
 *     await upload([report], "https://collector.example/v1/reports");
 */
export { Client, type Named, type Options, type ReportOptions, type Round, type Spent, type Value, type Values } from "./client.js";
export { type Code, type Rejection, TaskveilError } from "./errors.js";
export type { FamilyFiles } from "./families.js";
export type { CategoryField, DateField, Field, FlagField, NumberField, WordsField } from "./fields.js";
export type { Files } from "./files.js";
export type { Panel } from "./panels.js";
export { upload, type UploadOptions } from "./upload.js";
export { packBatch, Report } from "./wire.js";
