/** The limits for reading and storing transcripts. Their writer is in the sandbox and can write anything. */

export const TRANSCRIPT_LIMITS = {
  /** Files of one program in one home. */
  files: 20_000,
  /** Entries of one folder that are read. */
  folderEntries: 100_000,
  fileBytes: 1024 * 1024 * 1024,
  /** A line contains one message, with the images and files that were pasted into it. */
  lineBytes: 32 * 1024 * 1024,
  /** Lines that belong to a conversation. */
  lines: 1_000_000,
  turns: 50_000,
  partsOfTurn: 10_000,
  /** The limits for one message, one thought, and the input and output of a tool. */
  textChars: 256 * 1024,
  thinkingChars: 64 * 1024,
  toolInputChars: 8 * 1024,
  toolOutputChars: 16 * 1024,
  /** The limit for a whole conversation. */
  conversationChars: 48 * 1024 * 1024,
  /** The nesting depth of a tool's input. */
  depth: 32,
  /** The limit for names such as a model, a folder or a title. */
  nameChars: 1024,
  /** Conversations in one database. */
  sessions: 20_000,
} as const
