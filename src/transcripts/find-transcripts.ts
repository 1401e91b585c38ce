/** Finds the transcripts in a home, and reads them one after the other. */
import { assemble } from './assemble.ts'
import type { Redact } from './clean-text.ts'
import { type Conversation, HARNESSES, type Harness } from './conversation.ts'
import { TRANSCRIPT_LIMITS } from './limits.ts'
import { READERS } from './readers/all.ts'
import type { TranscriptFile, TranscriptSource } from './source.ts'

export interface FindOptions {
  readonly source: TranscriptSource
  readonly redact: Redact
  readonly signal: AbortSignal
  /** All unless given. */
  readonly harnesses?: readonly Harness[]
  /** A file, relative to the home, of which not all is read, and why. */
  readonly onProblem?: (path: string, problem: string) => void
}

export interface FoundFile extends TranscriptFile {
  readonly harness: Harness
  /** Another value: it, or what belongs to it, was written to. */
  readonly stamp: string
}

export async function* findTranscripts(options: FindOptions): AsyncGenerator<FoundFile> {
  for (const harness of options.harnesses ?? HARNESSES) {
    const { folder, depth, matches, companions } = READERS[harness]
    const files = new Map<string, TranscriptFile>()
    let looked = 0
    for await (const file of options.source.list(folder, depth)) {
      options.signal.throwIfAborted()
      if (looked++ >= TRANSCRIPT_LIMITS.files) {
        options.onProblem?.(folder, `holds more than ${TRANSCRIPT_LIMITS.files.toLocaleString('en')} files`)
        break
      }
      files.set(file.path, file)
    }
    for (const file of files.values()) {
      if (!matches(file.path.slice(folder.length + 1))) continue
      const together = [file, ...(companions?.(file.path) ?? []).flatMap((path) => files.get(path) ?? [])]
      const stamp = together.map(({ bytes, modifiedAtMs }) => `${bytes}@${modifiedAtMs}`).join(' ')
      yield { ...file, harness, stamp }
    }
  }
}

/** The conversations in one file. */
export async function* conversationsIn(file: FoundFile, options: FindOptions): AsyncGenerator<Conversation> {
  const { source, redact, signal, onProblem } = options
  const entries = READERS[file.harness].read(source, file, { signal })
  for await (const conversation of assemble(entries, {
    ...{ harness: file.harness, path: file.path, redact },
    onProblem: (problem) => onProblem?.(file.path, problem),
  })) {
    signal.throwIfAborted()
    yield conversation
  }
}

/** All conversations in a home, in no particular order. */
export async function* findConversations(options: FindOptions): AsyncGenerator<Conversation> {
  for await (const file of findTranscripts(options)) yield* conversationsIn(file, options)
}
