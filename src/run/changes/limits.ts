/** How much of what a sandbox says about its workspace is listened to, and how much of it is kept. */

export const CHANGE_LIMITS = {
  /** Files, links and whatever else the workspace holds. */
  entries: 200_000,
  listingBytes: 64 * 1024 * 1024,
  lineBytes: 32 * 1024,
  listingMs: 5 * 60_000,
  pathBytes: 4096,
  /** Larger files are known by their size and time alone, and never brought over. */
  fileBytes: 64 * 1024 * 1024,
  /** Of all contents that one run keeps. */
  keptBytes: 1024 * 1024 * 1024,
  fetchMs: 15 * 60_000,
  /** What is left out is counted in full and named so far. */
  named: 1000,
  /** Of `changes.json` and `baseline.json`. */
  recordBytes: 256 * 1024 * 1024,
  /** A text that is longer is not compared line by line. */
  diffedBytes: 2 * 1024 * 1024,
} as const
