/** Where transcripts come from: something shaped like a home, on this machine or inside a sandbox. */

export interface TranscriptFile {
  /** Relative to the home, with `/`. */
  readonly path: string
  readonly bytes: number
  readonly modifiedAtMs: number
}

export interface TranscriptSource {
  /**
   * The regular files in a folder of the home, down to `depth` folders below it; links are never followed. Nothing when
   * there is no such folder.
   */
  list(folder: string, depth: number): AsyncIterable<TranscriptFile>
  /** At most so many bytes, from the beginning. Ends without any when the file is gone, or is no regular file any more. */
  read(path: string, maxBytes: number): AsyncIterable<Uint8Array>
}
