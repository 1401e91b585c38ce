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
import { faultSeenFromOutside } from './verify-isolation.ts'
import { faultInWorkspace } from './verify-workspace.ts'
import { type Guarded, guardWorkspace } from './workspace-guard.ts'

let test: TestFolder
let workspace: string
let guarded: readonly Guarded[]
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

/** Starts a sandbox that is set up like ours but for one change, looks at it from outside, and ends it. */
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

const fault = (change?: (argv: Argv) => Argv) => inspectWith((pid) => faultSeenFromOutside(pid, UID), change)
const without =
  (option: string, values = 0) =>
  (argv: Argv) =>
    argv.toSpliced(argv.indexOf(option), 1 + values)

describe('a sandbox, seen from outside', () => {
  it('is as promised when nothing is left out', async () => {
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
  it.each(wrong)('is not as promised when it is left with %s', async (_, change, expected) => {
    expect(await fault(change)).toBe(expected)
  })

  it('is not as promised when it runs as another user', async () => {
    expect(await inspectWith((pid) => faultSeenFromOutside(pid, UID + 1))).toBe('it runs as the wrong user')
  })
})

describe('a workspace in place, seen from outside', () => {
  const workspaceFault = (change?: (argv: Argv) => Argv) =>
    inspectWith((pid) => faultInWorkspace(pid, { identity, guarded }), change)

  it('is the one chosen, with all that is guarded in it', async () => {
    expect(await workspaceFault()).toBeUndefined()
  })

  it('is refused when another folder was put in its place', async () => {
    renameSync(workspace, test.path('moved'))
    mkdirSync(workspace)
    guardWorkspace(test.path('sandboxes/one'), projectFolder(), undefined)
    expect(await workspaceFault()).toBe('its workspace is not the requested folder')
  })

  it('is refused when a guarded name was a link for the moment in which it was mounted', async () => {
    symlinkSync(test.path('secrets'), test.path('link'))
    const swapArgument = (argv: Argv) =>
      argv.with(argv.indexOf(join(workspace, '.claude')), test.path('link'))
    expect(await workspaceFault(swapArgument)).toBe('.claude in its workspace was replaced while it started')
  })

  it('is refused when a guarded name is not mounted', async () => {
    const bare = (argv: Argv) => argv.toSpliced(argv.indexOf(join(workspace, '.claude')) - 1, 3)
    expect(await workspaceFault(bare)).toBe('.claude in its workspace was replaced while it started')
  })

  it('of something that ended cannot be looked at', () => {
    expect(faultInWorkspace(2 ** 22 + 1, { identity, guarded })).toBe(
      'its workspace cannot be inspected (ENOENT)',
    )
  })
})
