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
import { NEVER_ABORTED } from '../../lib/never-aborted.fixture.ts'
import type { StoredChange, StoredChangeSet } from './change-set.ts'
import { type ChangesScene, file, link, newChangesScene, storeChanges, write } from './changes.fixture.ts'
import { HostTree } from './host-tree.ts'
import { planChanges } from './plan-changes.ts'
import { type Applied, applyChange, temporaryName } from './write-changes.ts'

/** Applies changes and skips conflicts. Stops after `stopAfter` changes, as if it had been killed. */
async function apply(
  changeSet: StoredChangeSet,
  stopAfter = Number.POSITIVE_INFINITY,
): Promise<readonly Applied[]> {
  await using tree = await HostTree.open(changeSet.record.workspace)
  const done: Applied[] = []
  if (stopAfter === 0) return done
  for await (const one of applyChange(
    tree,
    changeSet,
    await planChanges(tree, changeSet, {}, NEVER_ABORTED),
    NEVER_ABORTED,
  )) {
    done.push(one)
    if (done.length >= stopAfter) break
  }
  return done
}

const statuses = (done: readonly Applied[]) =>
  Object.fromEntries(done.map(({ change, status }) => [change.path, status]))

/** Returns files by path, without empty folders. */
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
    // A file cannot contain other files.
    const stored = files.filter(([path]) => !files.some(([other]) => path.startsWith(`${other}/`)))
    return Object.fromEntries(stored)
  })

describe('applied changes', () => {
  it('make the workspace equal to the copy, also after an interruption at any point', async () => {
    await fc.assert(
      fc.asyncProperty(trees, trees, fc.nat(PATHS.length), async (before, after, stopAfter) => {
        const scene = newChangesScene(before)
        const changeSet = storeChanges(scene, changesOf(before, after), Object.values(after))
        await apply(changeSet, stopAfter)
        const done = await apply(changeSet)
        expect(done.filter(({ status }) => status !== 'applied' && status !== 'already')).toEqual([])
        expect(contentsOf(scene)).toEqual(after)
        expect(new Set((await apply(changeSet)).map(({ status }) => status)).has('applied')).toBe(false)
        rmSync(scene.workspace, { recursive: true })
      }),
      { numRuns: 60 },
    )
  })

  it('never overwrite anything that was written on the host since the copy', async () => {
    await fc.assert(
      fc.asyncProperty(trees, trees, trees, async (before, after, edits) => {
        const scene = newChangesScene(before)
        const mine: Record<string, string> = {}
        for (const path of Object.keys(edits)) {
          try {
            write(scene.workspace, { [path]: `mine: ${path}` })
            mine[path] = `mine: ${path}`
          } catch {
            // A file or a folder is in the way.
          }
        }
        await apply(storeChanges(scene, changesOf(before, after), Object.values(after)))
        expect(contentsOf(scene)).toMatchObject(mine)
        rmSync(scene.workspace, { recursive: true })
      }),
      { numRuns: 60 },
    )
  })

  it('keep the mode and drop set-id bits', async () => {
    const scene = newChangesScene({ 'private.txt': 'a', 'run.sh': 'a' })
    chmodSync(join(scene.workspace, 'private.txt'), 0o640)
    chmodSync(join(scene.workspace, 'run.sh'), 0o6750)
    const changeSet = storeChanges(
      scene,
      [
        { path: 'private.txt', before: file('a'), after: file('b') },
        { path: 'run.sh', before: file('a', true), after: file('a') },
        { path: 'new.sh', before: null, after: file('b', true) },
      ],
      ['b'],
    )
    expect(statuses(await apply(changeSet))).toEqual({
      'private.txt': 'applied',
      'run.sh': 'applied',
      'new.sh': 'applied',
    })
    const mode = (name: string) => statSync(join(scene.workspace, name)).mode & 0o7777
    expect([mode('private.txt'), mode('run.sh'), mode('new.sh')]).toEqual([
      0o640,
      0o640,
      0o777 & ~process.umask(),
    ])
  })

  it('create links that stay in the workspace, also in place of files, and follow none', async () => {
    const scene = newChangesScene({ 'to-link': 'file', 'a/x': 'x' })
    symlinkSync('a/x', join(scene.workspace, 'to-file'))
    const changeSet = storeChanges(
      scene,
      [
        { path: 'to-link', before: file('file'), after: link('a/x') },
        { path: 'to-file', before: link('a/x'), after: file('content') },
        { path: 'b/out', before: null, after: link('../../out') },
      ],
      ['content'],
    )
    expect(statuses(await apply(changeSet))).toEqual({
      'to-link': 'applied',
      'to-file': 'applied',
      'b/out': 'left',
    })
    expect(readlinkSync(join(scene.workspace, 'to-link'))).toBe('a/x')
    expect(lstatSync(join(scene.workspace, 'to-file')).isFile()).toBe(true)
    expect(readFileSync(join(scene.workspace, 'a/x'), 'utf8')).toBe('x')
    expect(existsSync(join(scene.workspace, 'b'))).toBe(false)
  })

  it('find and replace the incomplete file of a killed attempt', async () => {
    const scene = newChangesScene({ a: 'old' })
    const changeSet = storeChanges(scene, [{ path: 'a', before: file('old'), after: file('new') }], ['new'])
    await using tree = await HostTree.open(scene.workspace)
    const seen: string[] = []
    const isStill = async () => {
      seen.push(...readdirSync(scene.workspace))
      return false
    }
    const temporary = temporaryName(changeSet.record.run_id, 'a')
    writeFileSync(join(scene.workspace, temporary), 'half')
    expect(await tree.putFile('a', Buffer.from('new'), { executable: false, temporary, isStill })).toBe(false)
    expect(seen).toContain(temporary)
    expect(readdirSync(scene.workspace)).toEqual(['a'])
    writeFileSync(join(scene.workspace, temporary), 'half')
    expect(statuses(await apply(changeSet))).toEqual({ a: 'applied' })
    expect(contentsOf(scene)).toEqual({ a: 'new' })
  })
})

describe('a workspace that changed since the copy', () => {
  const outsideOf = (scene: ChangesScene) => {
    const outside = join(scene.workspace, '../outside')
    mkdirSync(outside)
    writeFileSync(join(outside, 'file'), 'precious')
    return outside
  }

  it('is protected when a folder became a link: nothing outside it is written or removed', async () => {
    const scene = newChangesScene({ 'lib/file': 'precious', 'lib/deep/er': 'x' })
    const changeSet = storeChanges(
      scene,
      [
        { path: 'lib/file', before: file('precious'), after: file('evil') },
        { path: 'lib/added', before: null, after: file('evil') },
        { path: 'lib/deep/er', before: file('x'), after: null },
      ],
      ['evil'],
    )
    const outside = outsideOf(scene)
    rmSync(join(scene.workspace, 'lib'), { recursive: true })
    symlinkSync(outside, join(scene.workspace, 'lib'))
    const done = await apply(changeSet)
    expect(done.map(({ status }) => status)).toEqual(['conflict', 'conflict', 'conflict'])
    expect(readdirSync(outside)).toEqual(['file'])
    expect(readFileSync(join(outside, 'file'), 'utf8')).toBe('precious')
  })

  it('is protected when a folder becomes a link between planning and writing', async () => {
    const scene = newChangesScene({ 'lib/file': 'precious', top: 'x' })
    const changeSet = storeChanges(
      scene,
      [{ path: 'lib/file', before: file('precious'), after: file('evil') }],
      ['evil'],
    )
    const outside = outsideOf(scene)
    await using tree = await HostTree.open(scene.workspace)
    const planned = await planChanges(tree, changeSet, {}, NEVER_ABORTED)
    expect(planned.map(({ verdict }) => verdict.status)).toEqual(['ready'])
    renameSync(join(scene.workspace, 'lib'), join(scene.workspace, 'moved'))
    symlinkSync(outside, join(scene.workspace, 'lib'))
    const done: Applied[] = []
    for await (const one of applyChange(tree, changeSet, planned, NEVER_ABORTED)) done.push(one)
    expect(statuses(done)).toEqual({ 'lib/file': 'conflict' })
    expect(readFileSync(join(scene.workspace, 'moved/file'), 'utf8')).toBe('precious')
    expect(readFileSync(join(outside, 'file'), 'utf8')).toBe('precious')
    expect(readdirSync(outside)).toEqual(['file'])
  })

  it('keeps its pipes and links, which are not opened, followed or replaced', async () => {
    const scene = newChangesScene({ 'was-file': 'x' })
    const outside = outsideOf(scene)
    execFileSync('mkfifo', [join(scene.workspace, 'pipe')])
    symlinkSync(join(outside, 'file'), join(scene.workspace, 'link'))
    const changeSet = storeChanges(
      scene,
      [
        { path: 'pipe', before: file('precious'), after: file('evil') },
        { path: 'link', before: file('precious'), after: file('evil') },
        { path: 'link/below', before: null, after: file('evil') },
      ],
      ['evil'],
    )
    expect(new Set((await apply(changeSet)).map(({ status }) => status))).toEqual(new Set(['conflict']))
    expect(lstatSync(join(scene.workspace, 'pipe')).isFIFO()).toBe(true)
    expect(readFileSync(join(outside, 'file'), 'utf8')).toBe('precious')
  })

  it('gets no files in git’s own folder, for any spelling in the record', async () => {
    const scene = newChangesScene({ '.git/config': 'x' })
    const paths = ['.git/config', '.GIT/hooks/pre-commit', 'sub/.git/config', 'git~1/config', '.git./x']
    const changeSet = storeChanges(
      scene,
      paths.map((path) => ({ path, before: null, after: file('evil') })),
      ['evil'],
    )
    expect((await apply(changeSet)).map(({ status }) => status)).toEqual(paths.map(() => 'left'))
    expect(contentsOf(scene)).toEqual({ '.git/config': 'x' })
  })

  it('gets files that host programs run or trust only on request, and none in Craik’s own home', async () => {
    const scene = newChangesScene({ 'tools/craik/config/limits.yaml': 'mine' })
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
    const changeSet = storeChanges(
      scene,
      paths.map((path) => ({ path, before: null, after: file('evil') })),
      ['evil'],
    )
    await using tree = await HostTree.open(scene.workspace)
    const listLeft = async (withSettings: boolean) => {
      const planned = await planChanges(tree, changeSet, { own: 'tools/craik', withSettings }, NEVER_ABORTED)
      return planned.filter(({ verdict }) => verdict.status === 'left').map(({ change }) => change.path)
    }
    expect((await listLeft(false)).sort()).toEqual(paths.sort())
    expect((await listLeft(true)).sort()).toEqual(['Tools/Craik/y', 'tools/craik/config/x'])
  })

  it('gets no files in a bare repository unless requested', async () => {
    const scene = newChangesScene({ 'mirror/HEAD': 'ref: refs/heads/main', 'mirror/config': 'mine' })
    const paths = ['mirror/config', 'mirror/hooks/pre-commit', 'src/config']
    const changeSet = storeChanges(
      scene,
      paths.map((path) => ({ path, before: null, after: file('evil') })),
      ['evil'],
    )
    await using tree = await HostTree.open(scene.workspace)
    const listLeft = async (withSettings: boolean) => {
      const planned = await planChanges(tree, changeSet, { withSettings }, NEVER_ABORTED)
      return planned.filter(({ verdict }) => verdict.status === 'left').map(({ change }) => change.path)
    }
    expect(await listLeft(false)).toEqual(['mirror/config', 'mirror/hooks/pre-commit'])
    expect(await listLeft(true)).toEqual([])
  })

  it('is protected from a record with a path out of it, which cannot be written', () => {
    const scene = newChangesScene({})
    for (const path of ['../x', '/etc/passwd', 'a/../../b', ''])
      expect(() => storeChanges(scene, [{ path, before: null, after: file('evil') }])).toThrow()
  })
})
