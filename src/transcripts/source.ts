/** Where transcripts come from: something shaped like a home, on this machine or inside a sandbox. */

export interface TranscriptFile {
  /** Relative to the home, with `/`. */
  readonly path: string
  readonly bytes: number
  readonly modifiedAtMs: number
  /** Why it cannot be read, as in "is a pipe": what is no regular file. */
  readonly unfit?: string
}

/** What a source that may not read a file says. */
export class UnreadableTranscript extends Error {}

export interface TranscriptSource {
  /**
   * What is in a folder of the home, down to `depth` folders below it: regular files, and what is unfit; links are never
   * followed. Nothing when there is no such folder.
   */
  list(folder: string, depth: number): AsyncIterable<TranscriptFile>
  /**
   * At most so many bytes, from the beginning. Ends without any when the file is gone, or is no regular file any more; throws
   * `UnreadableTranscript` when it may not be read.
   */
  read(path: string, maxBytes: number): AsyncIterable<Uint8Array>
}
