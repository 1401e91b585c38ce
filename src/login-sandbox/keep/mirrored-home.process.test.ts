/**
 * Tests reading a login's volume on the host as a home. It must contain every program's transcripts, and nothing behind
 * a link.
 */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { TRANSCRIPT_HARNESSES } from '../../transcripts/conversation.ts'
import { findConversations } from '../../transcripts/find-transcripts.ts'
import { READERS } from '../../transcripts/readers/all.ts'
import {
  addOpencodeSession,
  all,
  jsonl,
  LINES,
  openOpencodeDatabase,
  PATHS,
  TWO,
} from '../../transcripts/transcripts.fixture.ts'
import { createMirroredHome } from './mirrored-home.ts'
import { VOLUME_LINKS } from './mirrors.ts'

let volume: string
const signal = new AbortController().signal
const source = () => createMirroredHome(volume, { signal })
const write = (path: string, content: string) => {
  mkdirSync(dirname(join(volume, path)), { recursive: true })
  writeFileSync(join(volume, path), content)
}
const names = async (folder: string, depth = 3) =>
  (await all(source().list(folder, depth))).map(({ path }) => path).sort()
const text = async (path: string) => Buffer.concat(await all(source().read(path, 1000))).toString()

/** Returns the path in the volume for a path in a program's home. */
function mirrorPath(path: string): string {
  const { home, volume: at } = VOLUME_LINKS.find((mirror) => path.startsWith(mirror.home))!
  return at + path.slice(home.length)
}

beforeEach(() => {
  volume = mkdtempSync(join(tmpdir(), 'craik-volume-'))
})
afterEach(() => rmSync(volume, { recursive: true }))

it('contains the transcripts of all five programs, under their paths in a home', async () => {
  for (const harness of TRANSCRIPT_HARNESSES)
    if (harness !== 'opencode') write(mirrorPath(PATHS[harness]), jsonl(LINES[harness](TWO)))
  mkdirSync(join(volume, 'opencode'))
  const database = openOpencodeDatabase(join(volume, 'opencode/opencode.db'))
  addOpencodeSession(database, TWO)
  try {
    const found = await all(findConversations({ source: source(), redact: (output) => output, signal }))
    expect(found.map(({ harness, path, turns }) => [harness, path, turns.length]).sort()).toEqual(
      TRANSCRIPT_HARNESSES.map((harness) => [harness, PATHS[harness], 4]).sort(),
    )
  } finally {
    database.close()
  }
})

it('has a mirror for the folder of each reader', () => {
  for (const { folder } of Object.values(READERS))
    expect(VOLUME_LINKS.some(({ home }) => home === folder || dirname(home) === folder)).toBe(true)
})

it('shows the stored files and nothing else', async () => {
  write('claude/projects/-x/a.jsonl', 'a')
  write('opencode/opencode.db', 'b')
  write('opencode/opencode.db-wal', 'c')
  write('opencode/opencode.db-odd', 'd')
  write('opencode/config/opencode.json', '{}')
  expect(await names('.claude/projects')).toEqual(['.claude/projects/-x/a.jsonl'])
  expect(await names('.claude/projects/-x')).toEqual(['.claude/projects/-x/a.jsonl'])
  expect(await names('.local/share/opencode')).toEqual([
    '.local/share/opencode/opencode.db',
    '.local/share/opencode/opencode.db-wal',
  ])
  expect(await names('.ssh')).toEqual([])
  expect(await text('.claude/projects/-x/a.jsonl')).toBe('a')
  expect(await text('.local/share/opencode/opencode.db-wal')).toBe('c')
  expect(await text('.local/share/opencode/opencode.db-odd')).toBe('')
  expect(await text('claude/projects/-x/a.jsonl')).toBe('')
})

it('follows no link that the sandbox created', async () => {
  const outside = mkdtempSync(join(tmpdir(), 'craik-outside-'))
  try {
    writeFileSync(join(outside, 'a.jsonl'), 'a secret of the host')
    mkdirSync(join(volume, 'claude'))
    symlinkSync(outside, join(volume, 'claude/projects'))
    mkdirSync(join(volume, 'opencode'))
    symlinkSync(join(outside, 'a.jsonl'), join(volume, 'opencode/opencode.db'))
    expect(await names('.claude/projects')).toEqual([])
    expect(await names('.local/share/opencode')).toEqual([])
    expect(await text('.claude/projects/a.jsonl')).toBe('')
    expect(await text('.local/share/opencode/opencode.db')).toBe('')
  } finally {
    rmSync(outside, { recursive: true })
  }
})

it('is empty while there is no volume', async () => {
  rmSync(volume, { recursive: true })
  expect(await names('.claude/projects')).toEqual([])
  expect(await text('.claude/projects/-x/a.jsonl')).toBe('')
  mkdirSync(volume)
})
