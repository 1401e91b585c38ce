import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { homeAt } from '../../store/home.ts'
import { keepBaseline, readBaseline, readChangeSet } from './change-set.ts'
import { answering, type ChangesScene, file, never, newChangesScene } from './changes.fixture.ts'
import { changesBetween, type FileChanges } from './compare.ts'
import { sha256 } from './content-store.ts'
import type { FileManifest, ManifestEntry } from './manifest.ts'
import { type KeepInput, keepChanges } from './store-change-set.ts'

const RUN_ID = 'run_01JCQ3V8Z0W4N5T6R7Y8K9M2PD'

function manifest(entries: Readonly<Record<string, ManifestEntry>>): FileManifest {
  return { entries: new Map(Object.entries(entries)), unfit: [], unfitCount: 0 }
}

const inputOf = ({ home, workspace }: ChangesScene): KeepInput => ({
  home: homeAt(home),
  runId: RUN_ID,
  sandboxId: 'sbx_1',
  operator: 'local-user:ada',
  workspace,
  nowMs: 0,
})

function sending(...contents: readonly (string | null)[]) {
  return answering(
    contents.map((one, i) => {
      const s = one === null ? null : Buffer.byteLength(one)
      return Buffer.from(`${JSON.stringify({ i, s })}\n${one ?? ''}`)
    }),
  )
}

const CHANGED: FileChanges = changesBetween(
  manifest({ a: file('old'), gone: file('gone') }),
  manifest({ a: file('claimed'), b: file('new') }),
)

describe('what is kept of a run', () => {
  it('is what arrived, whatever was said of it, and what that replaces', async () => {
    const place = newChangesScene({ a: 'old', gone: 'changed here' })
    await keepChanges(inputOf(place), sending('arrived', 'new'), CHANGED, never)
    const { record, contents } = await readChangeSet(homeAt(place.home), RUN_ID)
    expect(record.changes).toEqual([
      { path: 'a', before: file('old'), after: file('arrived') },
      { path: 'b', before: null, after: file('new') },
      { path: 'gone', before: file('gone'), after: null },
    ])
    expect(contents.get(sha256('old'))?.toString()).toBe('old')
    expect(contents.get(sha256('gone'))).toBeUndefined()
    expect(contents.get('../../secrets/log.key')).toBeUndefined()
  })

  it('is for its owner alone', async () => {
    const place = newChangesScene({ a: 'old' })
    await keepChanges(inputOf(place), sending('x', 'y'), CHANGED, never)
    const runs = join(place.home, 'runs')
    for (const entry of readdirSync(runs, { recursive: true, withFileTypes: true }))
      expect(statSync(join(entry.parentPath, entry.name)).mode & 0o077).toBe(0)
  })

  it('names what went away while it was read, and keeps the rest', async () => {
    const place = newChangesScene({ a: 'old' })
    const { record } = await keepChanges(inputOf(place), sending(null, 'new'), CHANGED, never)
    expect(record.changes.map(({ path }) => path)).toEqual(['b', 'gone'])
    expect(record).toMatchObject({ left: [{ path: 'a' }], left_count: 1 })
  })

  it('is nothing when the sandbox breaks off, and stays what it was when that was kept before', async () => {
    const place = newChangesScene({ a: 'old' })
    const home = homeAt(place.home)
    await expect(keepChanges(inputOf(place), sending('only one'), CHANGED, never)).rejects.toThrow(
      'is truncated',
    )
    await expect(readChangeSet(home, RUN_ID)).rejects.toMatchObject({ code: 'not_found' })
    await keepChanges(inputOf(place), sending('first', 'second'), CHANGED, never)
    const before = await readChangeSet(home, RUN_ID)
    await expect(keepChanges(inputOf(place), sending('third'), CHANGED, never)).rejects.toThrow(
      'is truncated',
    )
    expect(await readChangeSet(home, RUN_ID)).toEqual(before)
  })

  it('done again, takes the place of what was kept before', async () => {
    const place = newChangesScene({})
    await keepChanges(inputOf(place), sending('first', 'second'), CHANGED, never)
    await keepChanges(inputOf(place), sending('third', 'fourth'), CHANGED, never)
    const { contents } = await readChangeSet(homeAt(place.home), RUN_ID)
    expect(['first', 'third'].map((text) => contents.get(sha256(text))?.toString())).toEqual([
      undefined,
      'third',
    ])
  })

  it('that somebody else wrote is not read', async () => {
    const place = newChangesScene({})
    const { folder } = await keepChanges(inputOf(place), sending('x', 'y'), CHANGED, never)
    const path = join(folder, 'changes.json')
    const text = readFileSync(path, 'utf8')
    for (const wrong of [
      text.replace('"b"', '"../b"'),
      text.replace(RUN_ID, 'run_other'),
      text.slice(0, 50),
      '[]',
    ]) {
      writeFileSync(path, wrong)
      await expect(readChangeSet(homeAt(place.home), RUN_ID)).rejects.toMatchObject({ code: 'store_damaged' })
    }
  })

  it.each(['../x', '.', '..', 'a/b', '', '/etc', 'a\0b'])('of a run called %j is nowhere', async (runId) => {
    const place = newChangesScene({})
    await expect(readChangeSet(homeAt(place.home), runId)).rejects.toMatchObject({ code: 'not_found' })
    const input = { ...inputOf(place), runId }
    await expect(keepChanges(input, sending(), CHANGED, never)).rejects.toMatchObject({ code: 'not_found' })
    expect(existsSync(place.home)).toBe(false)
  })

  it('begins with a first look that can be kept too', async () => {
    const home = homeAt(newChangesScene({}).home)
    const first = manifest({
      a: file('x'),
      b: { kind: 'link', target: 'a' },
      c: { kind: 'other', what: 'pipe' },
    })
    expect(await readBaseline(home, RUN_ID)).toBeUndefined()
    keepBaseline(home, RUN_ID, first)
    expect(await readBaseline(home, RUN_ID)).toEqual(first)
  })
})
