/** Finds the transcripts in a home, and reads them one after the other. */
import { assemble } from './assemble.ts'
import type { Redact } from './clean-text.ts'
import { type Conversation, TRANSCRIPT_HARNESSES, type TranscriptHarness } from './conversation.ts'
import { READERS } from './readers/all.ts'
import { type TranscriptFile, type TranscriptSource, UnreadableTranscript } from './source.ts'
import { TRANSCRIPT_LIMITS } from './transcript-limits.ts'

export interface FindOptions {
  readonly source: TranscriptSource
  readonly redact: Redact
  readonly signal: AbortSignal
  /** Default: all. */
  readonly harnesses?: readonly TranscriptHarness[]
  /** Receives the path, relative to the home, of a file that is not read completely, and the reason. */
  readonly onProblem?: (path: string, problem: string) => void
  /** Receives a transcript that is not read at all. */
  readonly onSkipped?: (passed: SkippedTranscript) => void
}

export interface SkippedTranscript {
  readonly harness: TranscriptHarness
  /** Relative to the home. */
  readonly path: string
  /** A text such as "is a pipe". */
  readonly reason: string
}

export interface FoundFile extends TranscriptFile {
  readonly harness: TranscriptHarness
  /** Differs when the file, or a file that belongs to it, was written. */
  readonly stamp: string
}

const TOO_LONG = `is larger than ${TRANSCRIPT_LIMITS.fileBytes / 1024 ** 3} GiB; the rest is not read`

export async function* findTranscripts(options: FindOptions): AsyncGenerator<FoundFile> {
  for (const harness of options.harnesses ?? TRANSCRIPT_HARNESSES) {
    const { folder, depth, matches, companions } = READERS[harness]
    const files = new Map<string, TranscriptFile>()
    let looked = 0
    for await (const file of options.source.list(folder, depth)) {
      options.signal.throwIfAborted()
      if (looked++ >= TRANSCRIPT_LIMITS.files) {
        options.onProblem?.(
          folder,
          `contains more than ${TRANSCRIPT_LIMITS.files.toLocaleString('en')} files`,
        )
        break
      }
      files.set(file.path, file)
    }
    for (const file of files.values()) {
      if (!matches(file.path.slice(folder.length + 1))) continue
      if (file.unreadableReason !== undefined) {
        options.onSkipped?.({ harness, path: file.path, reason: file.unreadableReason })
        continue
      }
      if (file.bytes > TRANSCRIPT_LIMITS.fileBytes) options.onProblem?.(file.path, TOO_LONG)
      const together = [file, ...(companions?.(file.path) ?? []).flatMap((path) => files.get(path) ?? [])]
      const stamp = together.map(({ bytes, modifiedAtMs }) => `${bytes}@${modifiedAtMs}`).join(' ')
      yield { ...file, harness, stamp }
    }
  }
}

/** Yields the conversations in one file. */
export async function* conversationsIn(file: FoundFile, options: FindOptions): AsyncGenerator<Conversation> {
  const { source, redact, signal, onProblem } = options
  const { harness, path } = file
  const entries = READERS[harness].read(source, file, { signal })
  try {
    for await (const conversation of assemble(entries, {
      harness,
      path,
      redact,
      onProblem: (problem) => onProblem?.(path, problem),
    })) {
      signal.throwIfAborted()
      yield conversation
    }
  } catch (error) {
    if (!(error instanceof UnreadableTranscript)) throw error
    options.onSkipped?.({ harness, path, reason: error.message })
  }
}

/** Yields all conversations in a home, in no particular order. */
export async function* findConversations(options: FindOptions): AsyncGenerator<Conversation> {
  for await (const file of findTranscripts(options)) yield* conversationsIn(file, options)
}
