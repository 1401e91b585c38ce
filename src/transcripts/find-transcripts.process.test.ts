/**
 * Tests transcripts that are not read, or not completely. Each is reported with its reason, and does not prevent
 * reading the others.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { type FindOptions, findConversations, type SkippedTranscript } from './find-transcripts.ts'
import { homeFolder } from './home-folder.ts'
import { type TranscriptSource, UnreadableTranscript } from './source.ts'
import { TRANSCRIPT_LIMITS } from './transcript-limits.ts'
import { all, jsonl, LINES, memoryHome, PATHS, TWO } from './transcripts.fixture.ts'

const signal = new AbortController().signal

async function findAll(source: TranscriptSource) {
  const passed: SkippedTranscript[] = []
  const problems: string[][] = []
  const options: FindOptions = {
    source,
    signal,
    redact: (text: string) => text,
    onSkipped: (one) => passed.push(one),
    onProblem: (...problem) => problems.push(problem),
  }
  const conversations = await all(findConversations(options))
  return { harnesses: conversations.map(({ harness }) => harness), passed, problems }
}

it('reports a pipe in place of a transcript without waiting for it, and ignores other pipes', async () => {
  const home = mkdtempSync(join(tmpdir(), 'craik-home-'))
  try {
    const kimi = join(home, PATHS.kimi)
    const [codex, other] = [join(home, PATHS.codex), join(home, dirname(PATHS.codex), 'other')]
    for (const path of [kimi, codex]) mkdirSync(dirname(path), { recursive: true })
    writeFileSync(kimi, jsonl(LINES.kimi(TWO)))
    for (const path of [codex, other]) execFileSync('mkfifo', [path])
    expect(await findAll(homeFolder(home, { signal }))).toEqual({
      harnesses: ['kimi'],
      passed: [{ harness: 'codex', path: PATHS.codex, reason: 'is a pipe' }],
      problems: [],
    })
  } finally {
    rmSync(home, { recursive: true })
  }
})

it('reports a transcript without permission to read it', async () => {
  const files = Object.entries(LINES).map(([harness, lines]) => [
    PATHS[harness as keyof typeof LINES],
    jsonl(lines(TWO)),
  ])
  const source = memoryHome(Object.fromEntries(files))
  const refusing: TranscriptSource = {
    ...source,
    async *read(path, maxBytes) {
      if (path === PATHS['claude-code']) throw new UnreadableTranscript('cannot be read (EACCES)')
      yield* source.read(path, maxBytes)
    },
  }
  expect(await findAll(refusing)).toEqual({
    harnesses: ['codex', 'gemini', 'kimi'],
    passed: [{ harness: 'claude-code', path: PATHS['claude-code'], reason: 'cannot be read (EACCES)' }],
    problems: [],
  })
})

it('reports a transcript that is longer than the limit', async () => {
  const source = memoryHome({ [PATHS.kimi]: jsonl(LINES.kimi(TWO)) })
  const long: TranscriptSource = {
    ...source,
    async *list(folder, depth) {
      for await (const file of source.list(folder, depth))
        yield { ...file, bytes: TRANSCRIPT_LIMITS.fileBytes + 1 }
    },
  }
  expect(await findAll(long)).toEqual({
    harnesses: ['kimi'],
    passed: [],
    problems: [[PATHS.kimi, 'is larger than 1 GiB; the rest is not read']],
  })
})
