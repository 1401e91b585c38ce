import { mkdirSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TestFolder } from '../../sandbox.fixture.ts'
import { buildCommandInvocation } from './bubblewrap.ts'
import { findBubblewrap } from './find-bubblewrap.ts'
import { findReportFault, PROBE_COMMAND, readOwnNamespaces } from './isolation-probe.ts'
import { runInside } from './run-inside.ts'

let test: TestFolder
beforeEach(() => {
  test = new TestFolder()
  mkdirSync(test.path('project'))
})
afterEach(() => test[Symbol.dispose]())

type Argv = readonly string[]

async function report(argv: Argv, inputs: readonly Buffer[] = []): Promise<string> {
  let out = ''
  await runInside({ argv, inputs }, undefined, {
    argv,
    env: {},
    timeoutMs: 20_000,
    onStdout: (chunk) => {
      out += chunk
    },
    onStderr: () => {},
  })
  return out
}

/** Returns the report of a sandbox with Craik's arguments except for one change. */
async function reportOf(change: (argv: Argv) => Argv): Promise<string> {
  const found = await findBubblewrap(process.env)
  if (!('bubblewrap' in found)) throw new Error(found.reason)
  const { bubblewrap } = found
  const workspace = { folder: test.path('project'), covered: [] }
  const { argv, inputs } = buildCommandInvocation(bubblewrap.path, workspace, {}, PROBE_COMMAND, bubblewrap)
  return report(change(argv), inputs)
}

const faultOf = async (change: (argv: Argv) => Argv) =>
  findReportFault(await reportOf(change), readOwnNamespaces())

/** Removes an option and this number of its values. */
const without =
  (option: string, values = 0) =>
  (argv: Argv) =>
    argv.toSpliced(argv.indexOf(option), 1 + values)

describe('the isolation probe', () => {
  it('finds no fault in Craik’s own sandbox', async () => {
    expect(await faultOf((argv) => argv)).toBeUndefined()
  })

  const wrong: [string, (argv: Argv) => Argv, string][] = [
    ['the network', without('--unshare-net'), 'it shares the host’s net namespace'],
    ['the processes', without('--unshare-pid'), 'it shares the host’s pid namespace'],
    ['shared memory', without('--unshare-ipc'), 'it shares the host’s ipc namespace'],
    [
      'the name of the machine',
      (argv) => without('--hostname', 1)(without('--unshare-uts')(argv)),
      'it shares the host’s uts namespace',
    ],
    ['all system calls', without('--seccomp', 1), 'its system calls are not filtered'],
    ['a writable root', (argv) => withoutRemount(argv, '/'), 'a system folder is writable in it'],
    ['writable settings', (argv) => withoutRemount(argv, '/proc'), 'a system folder is writable in it'],
    [
      'a writable workspace',
      (argv) => argv.with(argv.lastIndexOf('--ro-bind'), '--bind'),
      'the workspace is writable in it',
    ],
    [
      'the host’s own temporary files',
      (argv) => argv.toSpliced(argv.lastIndexOf('--remount-ro'), 0, '--bind', test.folder, '/srv'),
      'a system folder is writable in it',
    ],
  ]
  it.each(wrong)('finds a fault in a sandbox that keeps %s', async (_, change, fault) => {
    expect(await faultOf(change)).toBe(fault)
  })

  if (process.getuid?.() === 0)
    it('finds a fault when root keeps its capabilities', async () => {
      expect(await faultOf(without('--cap-drop', 1))).toBe('it has Linux capabilities')
    })

  it('finds a fault on the host itself, where a program only pretends to isolate', async () => {
    expect(findReportFault(await report(PROBE_COMMAND), readOwnNamespaces())).toBe(
      'it shares the host’s net namespace',
    )
  })

  it('accepts no report that is changed, truncated or too long', async () => {
    const good = await reportOf((argv) => argv)
    const ours = readOwnNamespaces()
    expect(findReportFault(good, ours)).toBeUndefined()
    const lines = good.split('\n')
    for (let stored = 0; stored < lines.length - 1; stored++)
      expect(findReportFault(lines.slice(0, stored).join('\n'), ours), String(stored)).toBeTypeOf('string')
    for (const bad of [
      '',
      `${good}more\n`,
      `1\n${good}`,
      good.replace(/^\d+/, ''),
      good.replace(/^\d+/, 'net'),
      good.replace(/^(\s+)lo:/m, '$1lo: 0\n eth0:'),
      good.replace(/^CapEff:\t0/m, 'CapEff:\t1'),
      good.replace(/^CapBnd:.*\n/m, ''),
      good.replace('NoNewPrivs:\t1', 'NoNewPrivs:\t0'),
      good.replace('Seccomp:\t2', 'Seccomp:\t0'),
      good.replaceAll(' /workspace ', ' /elsewhere '),
      good.replace(/ \/workspace ro,/, ' /workspace rw,'),
    ])
      expect(findReportFault(bad, ours)).toBeTypeOf('string')
  })
})

function withoutRemount(argv: Argv, path: string): Argv {
  const at = argv.findIndex((word, i) => word === '--remount-ro' && argv[i + 1] === path)
  return argv.toSpliced(at, 2)
}
