/** Limits for what Craik reads from a sandbox about its workspace, and for what it stores. */

export const CHANGE_LIMITS = {
  /** Files, links and all other entries of the workspace. */
  entries: 200_000,
  listingBytes: 64 * 1024 * 1024,
  lineBytes: 32 * 1024,
  listingMs: 5 * 60_000,
  pathBytes: 4096,
  /** Larger files are compared only by size and time, and never applied. */
  fileBytes: 64 * 1024 * 1024,
  /** All contents that one run stores. */
  keptBytes: 1024 * 1024 * 1024,
  fetchMs: 15 * 60_000,
  /** All left-out changes are counted. This many are named. */
  named: 1000,
  /** The size of `changes.json` and of `baseline.json`. */
  recordBytes: 256 * 1024 * 1024,
  /** Longer texts are not compared line by line. */
  diffedBytes: 2 * 1024 * 1024,
} as const
