/** A source of transcripts has the layout of a home folder, on the host or in a sandbox. */

export interface TranscriptFile {
  /** Relative to the home, with `/`. */
  readonly path: string
  readonly bytes: number
  readonly modifiedAtMs: number
  /** Why a file that is not regular cannot be read, such as "is a pipe". */
  readonly unreadableReason?: string
}

/** Thrown when the source has no permission to read a file. */
export class UnreadableTranscript extends Error {}

export interface TranscriptSource {
  /**
   * Lists a folder of the home, down to `depth` folders below it: regular files, and files with `unfit`. Links are
   * never followed. A missing folder is empty.
   */
  list(folder: string, depth: number): AsyncIterable<TranscriptFile>
  /**
   * Reads at most this many bytes from the beginning. Yields nothing when the file is gone or no longer regular. Throws
   * `UnreadableTranscript` without permission to read the file.
   */
  read(path: string, maxBytes: number): AsyncIterable<Uint8Array>
}
