import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { StoredChange, StoredChangeSet } from './change-set.ts'
import { type ChangesScene, file, keep, link, never, newChangesScene, write } from './changes.fixture.ts'
import { HostTree } from './host-tree.ts'
import { planChanges } from './plan.ts'
import { type Applied, bringOver, temporaryName } from './put.ts'

/** Applies, with conflicts skipped, and stops after so many as if it had been killed then. */
async function apply(
  kept: StoredChangeSet,
  stopAfter = Number.POSITIVE_INFINITY,
): Promise<readonly Applied[]> {
  await using tree = await HostTree.open(kept.record.workspace)
  const done: Applied[] = []
  if (stopAfter === 0) return done
  for await (const one of bringOver(tree, kept, await planChanges(tree, kept, {}, never), never)) {
    done.push(one)
    if (done.length >= stopAfter) break
  }
  return done
}

const statuses = (done: readonly Applied[]) =>
  Object.fromEntries(done.map(({ change, status }) => [change.path, status]))

/** Files by path; folders that are empty are none. */
function contentsOf({ workspace }: ChangesScene): Record<string, string> {
  const files = readdirSync(workspace, { recursive: true, withFileTypes: true }).filter((one) => one.isFile())
  return Object.fromEntries(
    files.map(({ parentPath, name }) => {
      const path = join(parentPath, name)
      return [path.slice(workspace.length + 1), readFileSync(path, 'utf8')]
    }),
  )
}

type Tree = Readonly<Record<string, string>>

function changesOf(before: Tree, after: Tree): StoredChange[] {
  const paths = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  const state = (tree: Tree, path: string) => (tree[path] === undefined ? null : file(tree[path]))
  return paths
    .filter((path) => before[path] !== after[path])
    .map((path) => ({ path, before: state(before, path), after: state(after, path) }))
}

const PATHS = ['a', 'a/b', 'a/b/c', 'a/d', 'e', 'e/f', 'g/h/i'] as const
const trees: fc.Arbitrary<Tree> = fc
  .uniqueArray(fc.tuple(fc.constantFrom(...PATHS), fc.constantFrom('one', 'two', 'three\n')), {
    selector: ([path]) => path,
  })
  .map((files) => {
    // No file has files below it.
    const kept = files.filter(([path]) => !files.some(([other]) => path.startsWith(`${other}/`)))
    return Object.fromEntries(kept)
  })

describe('changes brought over', () => {
  it('make the workspace what the copy is, also when they were broken off anywhere before', async () => {
    await fc.assert(
      fc.asyncProperty(trees, trees, fc.nat(PATHS.length), async (before, after, stopAfter) => {
        const place = newChangesScene(before)
        const kept = keep(place, changesOf(before, after), Object.values(after))
        await apply(kept, stopAfter)
        const done = await apply(kept)
        expect(done.filter(({ status }) => status !== 'applied' && status !== 'already')).toEqual([])
        expect(contentsOf(place)).toEqual(after)
        expect(new Set((await apply(kept)).map(({ status }) => status)).has('applied')).toBe(false)
        rmSync(place.workspace, { recursive: true })
      }),
      { numRuns: 60 },
    )
  })

  it('never cost anything that was written here since the copy', async () => {
    await fc.assert(
      fc.asyncProperty(trees, trees, trees, async (before, after, edits) => {
        const place = newChangesScene(before)
        const mine: Record<string, string> = {}
        for (const path of Object.keys(edits)) {
          try {
            write(place.workspace, { [path]: `mine: ${path}` })
            mine[path] = `mine: ${path}`
          } catch {
            // A file is in the way, or a folder.
          }
        }
        await apply(keep(place, changesOf(before, after), Object.values(after)))
        expect(contentsOf(place)).toMatchObject(mine)
        rmSync(place.workspace, { recursive: true })
      }),
      { numRuns: 60 },
    )
  })

  it('keep mode and leave out set-id bits', async () => {
    const place = newChangesScene({ 'private.txt': 'a', 'run.sh': 'a' })
    chmodSync(join(place.workspace, 'private.txt'), 0o640)
    chmodSync(join(place.workspace, 'run.sh'), 0o6750)
    const kept = keep(
      place,
      [
        { path: 'private.txt', before: file('a'), after: file('b') },
        { path: 'run.sh', before: file('a', true), after: file('a') },
        { path: 'new.sh', before: null, after: file('b', true) },
      ],
      ['b'],
    )
    expect(statuses(await apply(kept))).toEqual({
      'private.txt': 'applied',
      'run.sh': 'applied',
      'new.sh': 'applied',
    })
    const mode = (name: string) => statSync(join(place.workspace, name)).mode & 0o7777
    expect([mode('private.txt'), mode('run.sh'), mode('new.sh')]).toEqual([
      0o640,
      0o640,
      0o777 & ~process.umask(),
    ])
  })

  it('bring links that stay inside, in place of files too, and follow none', async () => {
    const place = newChangesScene({ 'to-link': 'file', 'a/x': 'x' })
    symlinkSync('a/x', join(place.workspace, 'to-file'))
    const kept = keep(
      place,
      [
        { path: 'to-link', before: file('file'), after: link('a/x') },
        { path: 'to-file', before: link('a/x'), after: file('content') },
        { path: 'b/out', before: null, after: link('../../out') },
      ],
      ['content'],
    )
    expect(statuses(await apply(kept))).toEqual({
      'to-link': 'applied',
      'to-file': 'applied',
      'b/out': 'left',
    })
    expect(readlinkSync(join(place.workspace, 'to-link'))).toBe('a/x')
    expect(lstatSync(join(place.workspace, 'to-file')).isFile()).toBe(true)
    expect(readFileSync(join(place.workspace, 'a/x'), 'utf8')).toBe('x')
    expect(existsSync(join(place.workspace, 'b'))).toBe(false)
  })

  it('find what a killed attempt left half-written, and replace it', async () => {
    const place = newChangesScene({ a: 'old' })
    const kept = keep(place, [{ path: 'a', before: file('old'), after: file('new') }], ['new'])
    await using tree = await HostTree.open(place.workspace)
    const seen: string[] = []
    const isStill = async () => {
      seen.push(...readdirSync(place.workspace))
      return false
    }
    const temporary = temporaryName(kept.record.run_id, 'a')
    writeFileSync(join(place.workspace, temporary), 'half')
    expect(await tree.putFile('a', Buffer.from('new'), { executable: false, temporary, isStill })).toBe(false)
    expect(seen).toContain(temporary)
    expect(readdirSync(place.workspace)).toEqual(['a'])
    writeFileSync(join(place.workspace, temporary), 'half')
    expect(statuses(await apply(kept))).toEqual({ a: 'applied' })
    expect(contentsOf(place)).toEqual({ a: 'new' })
  })
})

describe('a workspace that is not what it was', () => {
  const outsideOf = (place: ChangesScene) => {
    const outside = join(place.workspace, '../outside')
    mkdirSync(outside)
    writeFileSync(join(outside, 'file'), 'precious')
    return outside
  }

  it('is not left through a folder that became a link, neither to write nor to remove', async () => {
    const place = newChangesScene({ 'lib/file': 'precious', 'lib/deep/er': 'x' })
    const kept = keep(
      place,
      [
        { path: 'lib/file', before: file('precious'), after: file('evil') },
        { path: 'lib/added', before: null, after: file('evil') },
        { path: 'lib/deep/er', before: file('x'), after: null },
      ],
      ['evil'],
    )
    const outside = outsideOf(place)
    rmSync(join(place.workspace, 'lib'), { recursive: true })
    symlinkSync(outside, join(place.workspace, 'lib'))
    const done = await apply(kept)
    expect(done.map(({ status }) => status)).toEqual(['conflict', 'conflict', 'conflict'])
    expect(readdirSync(outside)).toEqual(['file'])
    expect(readFileSync(join(outside, 'file'), 'utf8')).toBe('precious')
  })

  it('is not left through a folder that becomes a link between the plan and the writing', async () => {
    const place = newChangesScene({ 'lib/file': 'precious', top: 'x' })
    const kept = keep(place, [{ path: 'lib/file', before: file('precious'), after: file('evil') }], ['evil'])
    const outside = outsideOf(place)
    await using tree = await HostTree.open(place.workspace)
    const planned = await planChanges(tree, kept, {}, never)
    expect(planned.map(({ verdict }) => verdict.status)).toEqual(['ready'])
    renameSync(join(place.workspace, 'lib'), join(place.workspace, 'moved'))
    symlinkSync(outside, join(place.workspace, 'lib'))
    const done: Applied[] = []
    for await (const one of bringOver(tree, kept, planned, never)) done.push(one)
    expect(statuses(done)).toEqual({ 'lib/file': 'conflict' })
    expect(readFileSync(join(place.workspace, 'moved/file'), 'utf8')).toBe('precious')
    expect(readFileSync(join(outside, 'file'), 'utf8')).toBe('precious')
    expect(readdirSync(outside)).toEqual(['file'])
  })

  it('has its pipes and links neither opened nor followed nor replaced', async () => {
    const place = newChangesScene({ 'was-file': 'x' })
    const outside = outsideOf(place)
    execFileSync('mkfifo', [join(place.workspace, 'pipe')])
    symlinkSync(join(outside, 'file'), join(place.workspace, 'link'))
    const kept = keep(
      place,
      [
        { path: 'pipe', before: file('precious'), after: file('evil') },
        { path: 'link', before: file('precious'), after: file('evil') },
        { path: 'link/below', before: null, after: file('evil') },
      ],
      ['evil'],
    )
    expect(new Set((await apply(kept)).map(({ status }) => status))).toEqual(new Set(['conflict']))
    expect(lstatSync(join(place.workspace, 'pipe')).isFIFO()).toBe(true)
    expect(readFileSync(join(outside, 'file'), 'utf8')).toBe('precious')
  })

  it('gets nothing into git’s own folder, however it is spelt in the record', async () => {
    const place = newChangesScene({ '.git/config': 'x' })
    const paths = ['.git/config', '.GIT/hooks/pre-commit', 'sub/.git/config', 'git~1/config', '.git./x']
    const kept = keep(
      place,
      paths.map((path) => ({ path, before: null, after: file('evil') })),
      ['evil'],
    )
    expect((await apply(kept)).map(({ status }) => status)).toEqual(paths.map(() => 'left'))
    expect(contentsOf(place)).toEqual({ '.git/config': 'x' })
  })

  it('gets what programs here run or trust unasked only when that is asked for, and nothing into Craik’s own home', async () => {
    const place = newChangesScene({ 'tools/craik/config/limits.yaml': 'mine' })
    const paths = [
      '.envrc',
      '.VSCode/tasks.json',
      'sub/.claude/settings.json',
      'lib/HEAD',
      '.kimi-code/mcp.json',
      'opencode.json',
      '.qwen/settings.json',
      '.Rprofile',
      '.yarnrc',
      'tools/craik/config/x',
      'Tools/Craik/y',
    ]
    const kept = keep(
      place,
      paths.map((path) => ({ path, before: null, after: file('evil') })),
      ['evil'],
    )
    await using tree = await HostTree.open(place.workspace)
    const left = async (withSettings: boolean) => {
      const planned = await planChanges(tree, kept, { own: 'tools/craik', withSettings }, never)
      return planned.filter(({ verdict }) => verdict.status === 'left').map(({ change }) => change.path)
    }
    expect((await left(false)).sort()).toEqual(paths.sort())
    expect((await left(true)).sort()).toEqual(['Tools/Craik/y', 'tools/craik/config/x'])
  })

  it('gets nothing into a bare repository of the workspace unless that is asked for', async () => {
    const place = newChangesScene({ 'mirror/HEAD': 'ref: refs/heads/main', 'mirror/config': 'mine' })
    const paths = ['mirror/config', 'mirror/hooks/pre-commit', 'src/config']
    const kept = keep(
      place,
      paths.map((path) => ({ path, before: null, after: file('evil') })),
      ['evil'],
    )
    await using tree = await HostTree.open(place.workspace)
    const left = async (withSettings: boolean) => {
      const planned = await planChanges(tree, kept, { withSettings }, never)
      return planned.filter(({ verdict }) => verdict.status === 'left').map(({ change }) => change.path)
    }
    expect(await left(false)).toEqual(['mirror/config', 'mirror/hooks/pre-commit'])
    expect(await left(true)).toEqual([])
  })

  it('keeps a record with a path that leads elsewhere from being written at all', () => {
    const place = newChangesScene({})
    for (const path of ['../x', '/etc/passwd', 'a/../../b', ''])
      expect(() => keep(place, [{ path, before: null, after: file('evil') }])).toThrow()
  })
})
