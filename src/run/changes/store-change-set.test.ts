import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { NEVER_ABORTED } from '../../lib/never-aborted.fixture.ts'
import { homeAt } from '../../store/home.ts'
import { keepBaseline, readBaseline, readChangeSet } from './change-set.ts'
import { answering, type ChangesScene, file, newChangesScene } from './changes.fixture.ts'
import { sha256 } from './content-store.ts'
import { changesBetween, type FileChanges } from './file-changes.ts'
import type { FileManifest, ManifestEntry } from './file-manifest.ts'
import { type StoreInput, storeChangeSet } from './store-change-set.ts'

const RUN_ID = 'run_01JCQ3V8Z0W4N5T6R7Y8K9M2PD'

function manifest(entries: Readonly<Record<string, ManifestEntry>>): FileManifest {
  return { entries: new Map(Object.entries(entries)), unfit: [], unfitCount: 0 }
}

const inputOf = ({ home, workspace }: ChangesScene): StoreInput => ({
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

describe('the stored change set of a run', () => {
  it('contains the contents that arrived, whatever the sandbox announced, and the old ones', async () => {
    const scene = newChangesScene({ a: 'old', gone: 'changed here' })
    await storeChangeSet(inputOf(scene), sending('arrived', 'new'), CHANGED, NEVER_ABORTED)
    const { record, contents } = await readChangeSet(homeAt(scene.home), RUN_ID)
    expect(record.changes).toEqual([
      { path: 'a', before: file('old'), after: file('arrived') },
      { path: 'b', before: null, after: file('new') },
      { path: 'gone', before: file('gone'), after: null },
    ])
    expect(contents.get(sha256('old'))?.toString()).toBe('old')
    expect(contents.get(sha256('gone'))).toBeUndefined()
    expect(contents.get('../../secrets/log.key')).toBeUndefined()
  })

  it('is readable only by its owner', async () => {
    const scene = newChangesScene({ a: 'old' })
    await storeChangeSet(inputOf(scene), sending('x', 'y'), CHANGED, NEVER_ABORTED)
    const runs = join(scene.home, 'runs')
    for (const entry of readdirSync(runs, { recursive: true, withFileTypes: true }))
      expect(statSync(join(entry.parentPath, entry.name)).mode & 0o077).toBe(0)
  })

  it('lists what disappeared during the read, and stores the rest', async () => {
    const scene = newChangesScene({ a: 'old' })
    const { record } = await storeChangeSet(inputOf(scene), sending(null, 'new'), CHANGED, NEVER_ABORTED)
    expect(record.changes.map(({ path }) => path)).toEqual(['b', 'gone'])
    expect(record).toMatchObject({ left: [{ path: 'a' }], left_count: 1 })
  })

  it('is not written when the sandbox breaks off, and an earlier one stays unchanged', async () => {
    const scene = newChangesScene({ a: 'old' })
    const home = homeAt(scene.home)
    await expect(storeChangeSet(inputOf(scene), sending('only one'), CHANGED, NEVER_ABORTED)).rejects.toThrow(
      'is truncated',
    )
    await expect(readChangeSet(home, RUN_ID)).rejects.toMatchObject({ code: 'not_found' })
    await storeChangeSet(inputOf(scene), sending('first', 'second'), CHANGED, NEVER_ABORTED)
    const before = await readChangeSet(home, RUN_ID)
    await expect(storeChangeSet(inputOf(scene), sending('third'), CHANGED, NEVER_ABORTED)).rejects.toThrow(
      'is truncated',
    )
    expect(await readChangeSet(home, RUN_ID)).toEqual(before)
  })

  it('replaces an earlier one of the same run', async () => {
    const scene = newChangesScene({})
    await storeChangeSet(inputOf(scene), sending('first', 'second'), CHANGED, NEVER_ABORTED)
    await storeChangeSet(inputOf(scene), sending('third', 'fourth'), CHANGED, NEVER_ABORTED)
    const { contents } = await readChangeSet(homeAt(scene.home), RUN_ID)
    expect(['first', 'third'].map((text) => contents.get(sha256(text))?.toString())).toEqual([
      undefined,
      'third',
    ])
  })

  it('is not read if somebody else wrote it', async () => {
    const scene = newChangesScene({})
    const { folder } = await storeChangeSet(inputOf(scene), sending('x', 'y'), CHANGED, NEVER_ABORTED)
    const path = join(folder, 'changes.json')
    const text = readFileSync(path, 'utf8')
    for (const wrong of [
      text.replace('"b"', '"../b"'),
      text.replace(RUN_ID, 'run_other'),
      text.slice(0, 50),
      '[]',
    ]) {
      writeFileSync(path, wrong)
      await expect(readChangeSet(homeAt(scene.home), RUN_ID)).rejects.toMatchObject({ code: 'store_damaged' })
    }
  })

  it.each(['../x', '.', '..', 'a/b', '', '/etc', 'a\0b'])(
    'does not exist for a run called %j',
    async (runId) => {
      const scene = newChangesScene({})
      await expect(readChangeSet(homeAt(scene.home), runId)).rejects.toMatchObject({ code: 'not_found' })
      const input = { ...inputOf(scene), runId }
      await expect(storeChangeSet(input, sending(), CHANGED, NEVER_ABORTED)).rejects.toMatchObject({
        code: 'not_found',
      })
      expect(existsSync(scene.home)).toBe(false)
    },
  )

  it('starts with a baseline, which can be stored too', async () => {
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
