import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, relative } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TestFolder } from '../../sandbox.fixture.ts'
import { folderIdentity } from './inspect-folder.ts'
import { IN_REPOSITORY, IN_WORKSPACE, REPOSITORY } from './protected-paths.ts'
import { fileIdentity, guardWorkspace, releaseWorkspace } from './workspace-guard.ts'

let test: TestFolder
let workspace: string
beforeEach(() => {
  test = new TestFolder()
  workspace = test.path('project')
  mkdirSync(workspace)
  for (const name of ['one', 'two']) mkdirSync(test.path('sandboxes', name), { recursive: true })
})
afterEach(() => test[Symbol.dispose]())

const sandbox = (name = 'one') => test.path('sandboxes', name)
const projectFolder = () => ({
  folder: workspace,
  identity: folderIdentity(lstatSync(workspace, { bigint: true })),
})
const guard = (name = 'one') => guardWorkspace(sandbox(name), projectFolder(), undefined)
/** Walks folder by folder, because Node's recursive option follows links. */
const all = (folder = workspace): string[] =>
  readdirSync(folder, { withFileTypes: true })
    .flatMap((entry) => {
      const path = join(folder, entry.name)
      return [relative(workspace, path), ...(entry.isDirectory() ? all(path) : [])]
    })
    .sort()

function makeRepository(): void {
  for (const name of ['hooks', 'info', 'objects'])
    mkdirSync(join(workspace, '.git', name), { recursive: true })
  writeFileSync(join(workspace, '.git/config'), '[core]\n')
  writeFileSync(join(workspace, '.git/info/exclude'), '*.o\n')
}

describe('names that programs of the host trust', () => {
  it('are all mounted, and the repository around them stays writable', () => {
    makeRepository()
    const guarded = guard()
    expect(guarded.map(({ path }) => path)).toEqual(
      [REPOSITORY, ...IN_REPOSITORY, ...IN_WORKSPACE].map(({ path }) => path),
    )
    expect(guarded.filter(({ writable }) => writable).map(({ path }) => path)).toEqual(['.git'])
    for (const { path } of guarded) expect(existsSync(join(workspace, path)), path).toBe(true)
  })

  it('include the file that OpenCode needs in a folder where it cannot write', () => {
    mkdirSync(join(workspace, '.opencode'))
    writeFileSync(join(workspace, '.opencode/opencode.json'), '{}')
    guard()
    expect(readFileSync(join(workspace, '.opencode/.gitignore'), 'utf8')).toContain('node_modules')
    releaseWorkspace(sandbox())
    expect(all()).toEqual(['.opencode', '.opencode/opencode.json'])
  })

  it('come before their entries, so that each mount is on top of its parent', () => {
    makeRepository()
    const paths = guard().map(({ path }) => path)
    for (const path of paths.filter((one) => one.includes('/')))
      expect(paths.indexOf(path.split('/')[0]!)).toBeLessThan(paths.indexOf(path))
  })

  it('that are missing are created, and removed again', () => {
    makeRepository()
    const before = all()
    guard()
    expect(all().length).toBeGreaterThan(before.length)
    releaseWorkspace(sandbox())
    expect(all()).toEqual(before)
    releaseWorkspace(sandbox())
  })

  it('include the repository if it is missing', () => {
    expect(guard()).toContainEqual(expect.objectContaining({ path: '.git', writable: false }))
    expect(guard().some(({ path }) => path.startsWith('.git/'))).toBe(false)
    releaseWorkspace(sandbox())
    expect(all()).toEqual([])
  })

  it('include a file that names a repository elsewhere', () => {
    writeFileSync(join(workspace, '.git'), 'gitdir: /elsewhere\n')
    expect(guard()).toContainEqual(expect.objectContaining({ path: '.git', writable: false }))
    releaseWorkspace(sandbox())
    expect(readFileSync(join(workspace, '.git'), 'utf8')).toBe('gitdir: /elsewhere\n')
  })

  it('are recorded before Craik creates any of them', () => {
    makeRepository()
    // This folder blocks the last name but one, after Craik created the others.
    mkdirSync(join(workspace, '.pre-commit-config.yaml'))
    expect(() => guard()).toThrow('.pre-commit-config.yaml in the workspace is not a file')
    rmSync(join(workspace, '.pre-commit-config.yaml'), { recursive: true })
    releaseWorkspace(sandbox())
    expect(all()).not.toContain('.claude')
  })

  it('are removed if Craik was killed before it wrote the content of one', () => {
    makeRepository()
    const before = all()
    guard()
    // This is the record before all names are created, and the file just after its creation.
    const file = join(sandbox(), 'stubs.json')
    const record = JSON.parse(readFileSync(file, 'utf8')) as { readonly stubs: { identity?: string }[] }
    for (const stub of record.stubs) delete stub.identity
    writeFileSync(file, JSON.stringify(record))
    writeFileSync(join(workspace, '.git/commondir'), '')
    releaseWorkspace(sandbox())
    expect(all()).toEqual(before)
  })

  it('that were used meanwhile are kept', () => {
    guard()
    writeFileSync(join(workspace, '.claude/settings.json'), '{}')
    writeFileSync(join(workspace, '.envrc'), 'export A=1\n')
    rmSync(join(workspace, '.npmrc'))
    writeFileSync(join(workspace, '.npmrc'), '')
    releaseWorkspace(sandbox())
    expect(all()).toEqual(['.claude', '.claude/settings.json', '.envrc', '.npmrc'])
  })

  it('are kept as long as another sandbox needs them', () => {
    guard('one')
    guard('two')
    releaseWorkspace(sandbox('one'))
    expect(lstatSync(join(workspace, '.claude')).isDirectory()).toBe(true)
    releaseWorkspace(sandbox('two'))
    expect(all()).toEqual([])
  })

  it('are refused if they are links, whatever the target', () => {
    makeRepository()
    fc.assert(
      fc.property(
        fc.constantFrom(...[REPOSITORY, ...IN_REPOSITORY, ...IN_WORKSPACE].map(({ path }) => path)),
        fc.constantFrom('/etc', '/nonexistent', '.', workspace),
        (path, target) => {
          rmSync(workspace, { recursive: true })
          mkdirSync(workspace)
          if (path !== '.git') makeRepository()
          rmSync(join(workspace, path), { recursive: true, force: true })
          mkdirSync(dirname(join(workspace, path)), { recursive: true })
          symlinkSync(target, join(workspace, path))
          const before = all()
          expect(() => guard()).toThrow(`${path} in the workspace is a symbolic link`)
          expect(all()).toEqual(before)
        },
      ),
      { numRuns: 60 },
    )
  })

  it('are refused if they have another hard link, through which the sandbox could write to them', () => {
    writeFileSync(join(workspace, 'other'), 'export A=1\n')
    linkSync(join(workspace, 'other'), join(workspace, '.envrc'))
    expect(() => guard()).toThrow('.envrc in the workspace has another hard link')
    expect(all()).toEqual(['.envrc', 'other'])
    makeRepository()
    rmSync(join(workspace, '.envrc'))
    linkSync(join(workspace, '.git/config'), join(workspace, 'other-config'))
    expect(() => guard()).toThrow('.git/config in the workspace has another hard link')
  })

  it('are refused if a file in one of their folders has another hard link', () => {
    makeRepository()
    writeFileSync(join(workspace, '.git/hooks/pre-commit'), '#!/bin/sh\n')
    guard()
    linkSync(join(workspace, '.git/hooks/pre-commit'), join(workspace, 'notes'))
    expect(() => guard()).toThrow('.git/hooks/pre-commit in the workspace has another hard link')
    rmSync(join(workspace, 'notes'))
    mkdirSync(join(workspace, '.vscode/deep'), { recursive: true })
    writeFileSync(join(workspace, 'data.json'), '{}')
    linkSync(join(workspace, 'data.json'), join(workspace, '.vscode/deep/tasks.json'))
    expect(() => guard()).toThrow('.vscode/deep/tasks.json in the workspace has another hard link')
  })

  it('have another identity after they are replaced', () => {
    makeRepository()
    for (const { path, identity } of guard()) {
      expect(fileIdentity(lstatSync(join(workspace, path), { bigint: true })), path).toBe(identity)
      cpSync(join(workspace, path), test.path('copy', path), { recursive: true })
      expect(fileIdentity(lstatSync(test.path('copy', path), { bigint: true })), path).not.toBe(identity)
    }
  })

  /** Simulates a process that acts in the workspace after Craik created a name, before Craik checks it again. */
  const ownerWho = (acts: () => void) => ({
    get uid() {
      acts()
      return process.getuid!()
    },
    gid: process.getgid!(),
  })

  it.each(['.envrc', '.claude'])('are refused if %s is replaced while Craik creates it', (name) => {
    const isFolder = name === '.claude'
    writeFileSync(test.path('file'), '')
    mkdirSync(test.path('folder'))
    const swap = () => {
      if (!existsSync(join(workspace, name))) return
      rmSync(join(workspace, name), { recursive: true })
      renameSync(test.path(isFolder ? 'folder' : 'file'), join(workspace, name))
    }
    let swaps = 0
    const owner = ownerWho(() => {
      if (existsSync(join(workspace, name)) && swaps++ === 0) swap()
    })
    expect(() => guardWorkspace(sandbox(), projectFolder(), owner)).toThrow(
      `${name} in the workspace was replaced while the sandbox started`,
    )
  })

  it('are created in the checked folder, and in no other folder that replaced it', () => {
    const looked = projectFolder()
    renameSync(workspace, test.path('moved'))
    mkdirSync(workspace)
    expect(() => guardWorkspace(sandbox(), looked, undefined)).toThrow('was replaced while Craik checked it')
    expect(all()).toEqual([])
    expect(all(test.path('moved'))).toEqual([])
  })

  // The attacker replaces each name with a pipe as soon as it exists. A program that waits for the pipe never ends.
  it('cause no wait when a pipe replaces them', { timeout: 60_000 }, async () => {
    const guards = test.path('guards.mts')
    const guard = join(import.meta.dirname, 'workspace-guard.ts')
    writeFileSync(
      guards,
      `import { rmSync, mkdirSync, statSync } from 'node:fs'
       import { guardWorkspace, releaseWorkspace } from ${JSON.stringify(guard)}
       const [sandbox, workspace] = process.argv.slice(2)
       const { dev, ino } = statSync(workspace, { bigint: true })
       const identity = dev + ':' + ino
       const owner = { uid: process.getuid(), gid: process.getgid() }
       for (let round = 0; round < 150; round++) {
         try { guardWorkspace(sandbox, { folder: workspace, identity }, owner) } catch {}
         try { releaseWorkspace(sandbox) } catch {}
         rmSync(workspace + '/.envrc', { recursive: true, force: true })
       }`,
    )
    const attack = `
      const { execFileSync } = require('node:child_process')
      const { renameSync } = require('node:fs')
      const [workspace, pipe] = process.argv.slice(1)
      const { lstatSync } = require('node:fs')
      for (;;) {
        execFileSync('mkfifo', [pipe])
        process.stdout.write('.')
        while (!lstatSync(workspace + '/.envrc', { throwIfNoEntry: false })?.isFile());
        try { renameSync(pipe, workspace + '/.envrc') } catch { execFileSync('rm', ['-f', pipe]) }
      }`
    const attacker = spawn(process.execPath, ['-e', attack, workspace, test.path('pipe')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await once(attacker.stdout, 'data')
    attacker.stdout.resume()
    const guarding = spawn(process.execPath, [guards, sandbox(), workspace], { stdio: 'inherit' })
    try {
      expect(await once(guarding, 'exit', { signal: AbortSignal.timeout(30_000) })).toEqual([0, null])
    } finally {
      for (const one of [attacker, guarding]) one.kill('SIGKILL')
    }
  })
})
