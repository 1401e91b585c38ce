import { mkdirSync, renameSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ownerOf } from '../../../lib/owner.ts'
import { INSIDE } from '../../../sidecar/protocol.ts'
import { TestFolder } from '../../sandbox.fixture.ts'
import { seccompFilter } from '../../seccomp/filter.ts'
import { namespaceArguments, systemArguments } from './bubblewrap.ts'
import { findBubblewrap } from './find-bubblewrap.ts'
import { folderIdentity } from './inspect-folder.ts'
import { endProcesses } from './instance-processes.ts'
import { launchProcess } from './launch-process.ts'
import { findIsolationFault } from './verify-isolation.ts'
import { findWorkspaceFault } from './verify-workspace.ts'
import { guardWorkspace, type ProtectedName } from './workspace-guard.ts'

let test: TestFolder
let workspace: string
let guarded: readonly ProtectedName[]
let identity: string
const projectFolder = () => ({
  folder: workspace,
  identity: folderIdentity(statSync(workspace, { bigint: true })),
})
beforeEach(() => {
  test = new TestFolder()
  workspace = test.path('project')
  for (const path of [workspace, test.path('sandboxes/one'), test.path('secrets')])
    mkdirSync(path, { recursive: true })
  identity = projectFolder().identity
  guarded = guardWorkspace(test.path('sandboxes/one'), projectFolder(), undefined)
})
afterEach(() => test[Symbol.dispose]())

type Argv = readonly string[]
const UID = process.getuid!()

/** Starts a sandbox with Craik's arguments except for one change, inspects it from the host, and ends it. */
async function inspectWith<T>(
  look: (pid: number) => T,
  change: (argv: Argv) => Argv = (argv) => argv,
): Promise<T> {
  const found = await findBubblewrap(process.env)
  if (!('bubblewrap' in found)) throw new Error(found.reason)
  const { path, disableUserns } = found.bubblewrap
  const argv = [
    path,
    ...namespaceArguments('sandbox', disableUserns),
    '--as-pid-1',
    '--info-fd',
    '3',
    '--seccomp',
    '5',
    ...systemArguments(),
    '--proc',
    '/proc',
    '--dev',
    '/dev',
    '--bind',
    workspace,
    INSIDE.workspace,
    ...guarded.flatMap(({ path }) => ['--ro-bind', join(workspace, path), join(INSIDE.workspace, path)]),
    '--',
    '/bin/sh',
    '-c',
    'echo >&4; exec sleep 1000',
  ]
  const filter = seccompFilter({ unixSockets: true })!
  const { child, innerPid } = await launchProcess({ id: 'evidence', argv: change(argv), inputs: [filter] })
  const owners = [ownerOf(innerPid)!, ownerOf(child.pid!)!]
  try {
    return look(innerPid)
  } finally {
    await endProcesses(owners)
  }
}

const fault = (change?: (argv: Argv) => Argv) => inspectWith((pid) => findIsolationFault(pid, UID), change)
const without =
  (option: string, values = 0) =>
  (argv: Argv) =>
    argv.toSpliced(argv.indexOf(option), 1 + values)

describe('a sandbox, inspected from the host', () => {
  it('has no fault with Craik’s own arguments', async () => {
    expect(await fault()).toBeUndefined()
  })

  const wrong: [string, (argv: Argv) => Argv, string][] = [
    ['the network', without('--unshare-net'), 'it shares the host’s net namespace'],
    ['shared memory', without('--unshare-ipc'), 'it shares the host’s ipc namespace'],
    [
      'capabilities',
      (argv) => argv.toSpliced(argv.indexOf('--info-fd'), 0, '--cap-add', 'CAP_NET_BIND_SERVICE'),
      'it has Linux capabilities',
    ],
    ['all system calls', without('--seccomp', 1), 'its system calls are not filtered'],
  ]
  it.each(wrong)('has a fault if it keeps %s', async (_, change, expected) => {
    expect(await fault(change)).toBe(expected)
  })

  it('has a fault if it runs as another user', async () => {
    expect(await inspectWith((pid) => findIsolationFault(pid, UID + 1))).toBe('it runs as the wrong user')
  })
})

describe('a workspace in place, inspected from the host', () => {
  const workspaceFault = (change?: (argv: Argv) => Argv) =>
    inspectWith((pid) => findWorkspaceFault(pid, { identity, guarded }), change)

  it('is the requested folder, with every protected name mounted', async () => {
    expect(await workspaceFault()).toBeUndefined()
  })

  it('is refused if another folder replaced it', async () => {
    renameSync(workspace, test.path('moved'))
    mkdirSync(workspace)
    guardWorkspace(test.path('sandboxes/one'), projectFolder(), undefined)
    expect(await workspaceFault()).toBe('its workspace is not the requested folder')
  })

  it('is refused if a protected name was a link at the moment of its mount', async () => {
    symlinkSync(test.path('secrets'), test.path('link'))
    const swapArgument = (argv: Argv) =>
      argv.with(argv.indexOf(join(workspace, '.claude')), test.path('link'))
    expect(await workspaceFault(swapArgument)).toBe('.claude in its workspace was replaced while it started')
  })

  it('is refused if a protected name is not mounted', async () => {
    const bare = (argv: Argv) => argv.toSpliced(argv.indexOf(join(workspace, '.claude')) - 1, 3)
    expect(await workspaceFault(bare)).toBe('.claude in its workspace was replaced while it started')
  })

  it('of an exited process cannot be inspected', () => {
    expect(findWorkspaceFault(2 ** 22 + 1, { identity, guarded })).toBe(
      'its workspace cannot be inspected (ENOENT)',
    )
  })
})
