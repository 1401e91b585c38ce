/**
 * Tests the snapshot of a sandbox in the inbox: its changes, in complete and private files that are never behind a
 * link.
 */
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { diffStates } from './diff-states.ts'
import { parseState, type SavedState } from './sandbox-state.ts'
import { writeSnapshot } from './write-snapshot.ts'

const AT = '2026-11-15T09-12-44Z'
const state = (minute: number, ...records: string[]): SavedState =>
  parseState(
    Buffer.from([...records, '#end'].map((record) => `${record}\0`).join('')),
    Date.UTC(2026, 10, 15, 9, minute),
  )

describe('the list of changes', () => {
  it('contains the added, removed and changed entries by kind', () => {
    const before = state(0, '#debian', 'jq=1.6', 'vim=9', '#environment', 'A=1')
    const after = state(
      5,
      '#debian',
      'jq=1.7',
      'git=2',
      '#programs',
      'bin/x=',
      '#environment',
      'A=1',
      'B=`x`',
    )
    expect(diffStates(before, after)).toBe(`# Changes in the sandbox

From 2026-11-15T09:00:00.000Z to 2026-11-15T09:05:00.000Z.

## Debian packages

- added \`git\` \`2\`
- changed \`jq\`: \`1.6\` → \`1.7\`
- removed \`vim\` \`9\`

## Programs in ~/bin and ~/.local/bin

- added \`bin/x\`

## Environment

- added \`B\` \`\` \`x\` \`\`
`)
  })

  it('names a limited number of entries and counts the rest of a part', () => {
    const many = (kind: string, count: number) =>
      Array.from({ length: count }, (_, at) => `${kind}-${String(at).padStart(5, '0')}=1`)
    const before = state(0, '#debian', 'x-changed=1', 'x-gone=1', '#npm')
    const after = state(5, '#debian', ...many('a', 12_000), 'x-changed=2', '#npm', ...many('n', 200))
    const [debian = '', npm = ''] = diffStates(before, after).split('\n## ').slice(1)
    expect(debian.match(/^- added `a-/gm)).toHaveLength(200)
    expect(debian).toMatch(
      /\n- and 11,802 more, of 12,000 added, 1 changed, 1 removed in all: see entry\.json and exit\.json\n$/,
    )
    expect(npm.match(/^- added /gm)).toHaveLength(200)
    expect(npm).not.toContain('more')
  })

  it('says when nothing changed', () => {
    expect(diffStates(state(0, '#npm', 'a=1'), state(5, '#npm', 'a=1'))).toContain('Nothing changed.')
  })
})

describe('the inbox', () => {
  let folder: string
  let inbox: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'craik-inbox-'))
    inbox = join(folder, 'inbox')
  })
  afterEach(() => rmSync(folder, { recursive: true }))
  const entry = state(0, '#npm', 'a=1')
  const save = (exit: SavedState) => writeSnapshot({ inbox, isoTimestamp: AT, entry, exit })
  const at = (name: string) => join(inbox, AT, name)

  it('receives three files that only their owner can read, and later snapshots update them in place', async () => {
    expect(await save(state(5, '#npm', 'a=1', 'c=3'))).toBe(join(inbox, AT))
    await save(state(10, '#npm', 'a=1', 'b=2'))
    expect(readdirSync(join(inbox, AT)).sort()).toEqual(['changes.md', 'entry.json', 'exit.json'])
    expect(readFileSync(at('changes.md'), 'utf8')).toContain('- added `b` `2`')
    expect(JSON.parse(readFileSync(at('exit.json'), 'utf8')).npm).toEqual({ a: '1', b: '2' })
    expect(JSON.parse(readFileSync(at('entry.json'), 'utf8')).npm).toEqual({ a: '1' })
    for (const name of readdirSync(join(inbox, AT))) expect(statSync(at(name)).mode & 0o777).toBe(0o600)
    expect(statSync(join(inbox, AT)).mode & 0o777).toBe(0o700)
  })

  it('receives nothing when nothing changed, and an update when earlier changes are undone', async () => {
    expect(await save(state(5, '#npm', 'a=1'))).toBeUndefined()
    expect(readdirSync(inbox)).toEqual([])
    await save(state(10, '#npm', 'a=1', 'b=2'))
    await save(state(15, '#npm', 'a=1'))
    expect(readFileSync(at('changes.md'), 'utf8')).toContain('Nothing changed.')
  })

  it('is not written to while nothing changes', async () => {
    await save(state(5, '#npm', 'a=1', 'b=2'))
    const before = ['changes.md', 'entry.json', 'exit.json'].map((name) => lstatSync(at(name)).ino)
    await save(state(10, '#npm', 'a=1', 'b=2'))
    expect(['changes.md', 'entry.json', 'exit.json'].map((name) => lstatSync(at(name)).ino)).toEqual(before)
  })

  it('keeps no temporary files of a writer that was killed', async () => {
    mkdirSync(join(inbox, AT), { recursive: true, mode: 0o700 })
    writeFileSync(at('.exit.json.0123456789abcdef.tmp'), '{')
    await save(state(5))
    expect(readdirSync(join(inbox, AT)).sort()).toEqual(['changes.md', 'entry.json', 'exit.json'])
  })

  it('is never written to through a link', async () => {
    const outside = join(folder, 'outside')
    mkdirSync(outside)
    writeFileSync(join(outside, 'exit.json'), 'mine')
    mkdirSync(inbox)
    symlinkSync(outside, join(inbox, AT))
    await expect(save(state(5))).rejects.toMatchObject({ code: 'export_failed' })
    expect(readdirSync(outside)).toEqual(['exit.json'])
    rmSync(join(inbox, AT))
    mkdirSync(join(inbox, AT))
    symlinkSync(join(outside, 'exit.json'), at('exit.json'))
    await save(state(5))
    expect(readFileSync(join(outside, 'exit.json'), 'utf8')).toBe('mine')
    expect(lstatSync(at('exit.json')).isFile()).toBe(true)
  })

  it('accepts only a timestamp as the folder’s name', async () => {
    await expect(
      writeSnapshot({ inbox, isoTimestamp: '../elsewhere', entry, exit: entry }),
    ).rejects.toMatchObject({ code: 'internal' })
  })
})
