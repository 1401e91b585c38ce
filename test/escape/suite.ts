/**
 * The escape suite: attacks that must fail in a sandbox. Each one first has to succeed without the defense. Every kind
 * of sandbox instance passes the same attacks, over each transport.
 */
import { chmodSync, mkdirSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { LiveSandbox, SandboxHome } from '../sandbox-home.ts'
import { archives } from './archives.ts'
import { type Attack, python, verdict } from './attack.ts'
import { boundary, socketFolder } from './boundary.ts'
import { files } from './files.ts'
import { KERNEL_ATTACKS, NAMESPACE_ATTACKS, SOCKET_ATTACKS } from './kernel-attacks.ts'
import { MOUNT_ATTACKS } from './mount-attacks.ts'
import { neighbours } from './neighbours.ts'
import { network } from './network.ts'
import { processes } from './processes.ts'
import { relay } from './relay.ts'
import { resources } from './resources.ts'
import type { Scenario, Scene } from './scene.ts'
import { canDoWithout, runWithout } from './weakened-sandbox.ts'
import { workspaces } from './workspaces.ts'

const TABLES: Readonly<Record<string, readonly Attack[]>> = {
  'by sockets': SOCKET_ATTACKS,
  'by namespaces': NAMESPACE_ATTACKS,
  'by the kernel’s other calls': KERNEL_ATTACKS,
  'by mounts, devices and settings': MOUNT_ATTACKS,
}

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  'by the network': network,
  'by files': files,
  'from one sandbox to another': neighbours,
  'by the workspace': workspaces,
  'by archives': archives,
  'by processes': processes,
  'by eating what there is': resources,
  'by the sidecar': boundary,
}

/** The way to the host differs by transport, and so do the attacks on it. */
const TRANSPORT_SCENARIOS: Readonly<Record<SandboxHome['line'], Scenario>> = { socket: socketFolder, relay }

export function escapeSuite(
  name: string,
  open: () => Promise<SandboxHome>,
  line: SandboxHome['line'] = 'socket',
): void {
  describe(name, () => {
    let home: SandboxHome
    let box: LiveSandbox
    let outside: string

    beforeAll(async () => {
      home = await open()
      box = await home.create()
      outside = home.path('outside')
      mkdirSync(outside)
      chmodSync(home.folder, 0o755)
      chmodSync(outside, 0o777)
    })
    afterAll(() => home?.[Symbol.asyncDispose]())
    const scene = (): Scene => ({ home, box, outside })

    for (const [group, attacks] of Object.entries(TABLES)) describe(group, () => runTable(attacks, scene))
    for (const [group, scenario] of Object.entries(SCENARIOS)) describe(group, () => scenario(scene))
    describe(`by the ${line} transport`, () => TRANSPORT_SCENARIOS[line](scene))
  })
}

function runTable(attacks: readonly Attack[], scene: () => Scene): void {
  for (const { name, program, args, without, refused, refusedInContainer } of attacks) {
    const needsRoot = canDoWithout(without) ? '' : ' (only root can show that it works without)'
    it.skipIf(needsRoot !== '')(`no program in the sandbox ${name}${needsRoot}`, async () => {
      const { box, home, outside } = scene()
      const argv = python(program, args)
      const mounted = ['--ro-bind', outside, '/opt/craik']
      expect(verdict(await runWithout(without, argv, { shown: mounted })), 'without the defence').toBe(
        'succeeded',
      )
      const answers = home.kind === 'container' ? (refusedInContainer ?? refused) : refused
      expect(answers).toContain(verdict(await box.exec(argv)))
    })
  }
}
