/** How much of a transcript is read and kept: its writer is in the sandbox and may write anything. */

export const TRANSCRIPT_LIMITS = {
  /** Files of one program in one home. */
  files: 20_000,
  /** Entries of one folder that are looked at. */
  folderEntries: 100_000,
  fileBytes: 1024 * 1024 * 1024,
  /** A line holds one message, with the images and files that were pasted into it. */
  lineBytes: 32 * 1024 * 1024,
  /** Lines that take part in a conversation. */
  lines: 1_000_000,
  turns: 50_000,
  partsOfTurn: 10_000,
  /** Of one message, one thought, and of what goes into and comes out of a tool. */
  textChars: 256 * 1024,
  thinkingChars: 64 * 1024,
  toolInputChars: 8 * 1024,
  toolOutputChars: 16 * 1024,
  /** Of all of a conversation together. */
  conversationChars: 48 * 1024 * 1024,
  /** How deep what goes into a tool may be nested. */
  depth: 32,
  /** Of names such as a model, a folder, a title. */
  nameChars: 1024,
  /** Conversations in one database. */
  sessions: 20_000,
} as const
