/** The reader of one program's transcripts. */
import type { TranscriptHarness } from '../conversation.ts'
import type { TranscriptFile, TranscriptSource } from '../source.ts'
import type { TranscriptEntry } from '../transcript-entries.ts'
import { TRANSCRIPT_LIMITS } from '../transcript-limits.ts'
import { JsonLines } from '../transcript-lines.ts'

interface ReadOptions {
  readonly signal: AbortSignal
}

export interface TranscriptReader {
  readonly harness: TranscriptHarness
  /** The folder of the transcripts, relative to the home, and the number of folder levels below it. */
  readonly folder: string
  readonly depth: number
  /** Returns whether a file is a transcript. `path` is relative to the folder. */
  matches(path: string): boolean
  /**
   * Returns the files that change together with a transcript, relative to the home. A change to one of them is a change
   * to the transcript.
   */
  companions?(path: string): readonly string[]
  /** Never throws because of a file's content. */
  read(source: TranscriptSource, file: TranscriptFile, options: ReadOptions): AsyncIterable<TranscriptEntry>
}

/** Reads the lines of a file, up to the size limit or to the length of an earlier read. */
export function transcriptLines(
  source: TranscriptSource,
  { path }: TranscriptFile,
  maxBytes: number = TRANSCRIPT_LIMITS.fileBytes,
): JsonLines {
  return new JsonLines(source.read(path, maxBytes), { maxLineBytes: TRANSCRIPT_LIMITS.lineBytes })
}

/** Returns the damage of a file. Must be called after the last line. */
export function damageOf(lines: JsonLines, file: TranscriptFile, isCut = false): TranscriptEntry {
  const cut = isCut || file.bytes > TRANSCRIPT_LIMITS.fileBytes
  return { type: 'damage', damage: { ...lines.damage, cut } }
}

/** Returns `2f…` for `folder/2f….jsonl`. */
export function stemOf(path: string, ending: string): string {
  return path.slice(path.lastIndexOf('/') + 1, -ending.length)
}
