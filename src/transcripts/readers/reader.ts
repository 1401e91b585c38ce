/** What reads the transcripts of one program. */
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
  /** Where it keeps them, relative to the home, and how many folders deep below that. */
  readonly folder: string
  readonly depth: number
  /** Whether a file is a transcript; `path` is relative to the folder. */
  matches(path: string): boolean
  /** Files that change together with a transcript, relative to the home: when one of them is another, so is it. */
  companions?(path: string): readonly string[]
  /** Never throws because of what is in the file. */
  read(source: TranscriptSource, file: TranscriptFile, options: ReadOptions): AsyncIterable<TranscriptEntry>
}

/** The lines of a file, up to the limit of its length, or to that of the time before. */
export function transcriptLines(
  source: TranscriptSource,
  { path }: TranscriptFile,
  maxBytes: number = TRANSCRIPT_LIMITS.fileBytes,
): JsonLines {
  return new JsonLines(source.read(path, maxBytes), { maxLineBytes: TRANSCRIPT_LIMITS.lineBytes })
}

/** Told after the last line. */
export function damageOf(lines: JsonLines, file: TranscriptFile, isCut = false): TranscriptEntry {
  const cut = isCut || file.bytes > TRANSCRIPT_LIMITS.fileBytes
  return { type: 'damage', damage: { ...lines.damage, cut } }
}

/** `folder/2f….jsonl` → `2f…`. */
export function stemOf(path: string, ending: string): string {
  return path.slice(path.lastIndexOf('/') + 1, -ending.length)
}
