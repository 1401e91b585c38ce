/** Egress from a real sandbox: allowed requests work, and every attack runs in the sandbox. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { GatewayCaller } from '../../src/gateway/caller.ts'
import {
  type LocalWeb,
  openWeb,
  proxyServer,
  WAYS_OUT,
} from '../../src/gateway/egress/egress-proxy.fixture.ts'
import { createEgress, type Egress } from '../../src/gateway/egress/egress-proxy.ts'
import { parseTyped } from '../../src/gateway/egress/rules.ts'
import { addRule } from '../../src/gateway/egress/tokens.ts'
import { systemClock } from '../../src/lib/clock.ts'
import type { SandboxId } from '../../src/lib/ids.ts'
import { exportLines } from '../../src/receipts/export-log.ts'
import { replayLog } from '../../src/run/replay-log.ts'
import { processBackend } from '../../src/sandboxes/backends/process/backend.ts'
import {
  caller,
  exec,
  jobId,
  MANAGER_OPERATOR,
  type ManagerScene,
  managerScene,
  readOutput,
} from '../../src/sandboxes/manager/manager.fixture.ts'
import { FINE } from '../egress/attacks.ts'

/** The port of the sidecar's proxy in the sandbox. */
const PORT = 8118

describe('in a process sandbox', () => {
  let home: string
  let scene: ManagerScene
  let local: LocalWeb
  let egress: Egress
  let id: SandboxId

  beforeAll(async () => {
    home = mkdtempSync(join(tmpdir(), 'craik-e2e-egress-'))
    local = await openWeb()
    const callers = new WeakMap<Duplex, GatewayCaller>()
    const server = proxyServer({ ...handlers() } as Egress, (stream) => callers.get(stream)!)
    scene = managerScene(processBackend({ craikHome: home, environment: process.env }), systemClock, {
      inbound: (sandbox) => (stream) => {
        void callerFor(sandbox.id).then((who) => {
          callers.set(stream, who)
          server.emit('connection', stream)
        })
      },
    })
    const { store } = scene
    egress = createEgress({
      store,
      log: store.log,
      home: store.home,
      clock: systemClock,
      web: local.web,
      isTokenEndpoint: async () => false,
      credentials: () => 'broker',
    })
    id = await scene.create({ isolation: 'process' })
    for (const [typed, methods] of WAYS_OUT)
      await store.write(addRule, {
        ...parseTyped(typed, methods),
        operator: MANAGER_OPERATOR,
        approvedBy: MANAGER_OPERATOR,
        sandboxId: id,
        preset: null,
      })
  })

  afterAll(async () => {
    await egress?.close()
    await scene?.[Symbol.asyncDispose]()
    local?.close()
    rmSync(home, { recursive: true, force: true })
  })

  /** Wraps the handlers, because the proxy server is created before the store that they decide with. */
  function handlers(): Omit<Egress, 'close'> {
    return {
      handleConnect: (...all) => egress.handleConnect(...all),
      handlePlain: (...all) => egress.handlePlain(...all),
      handleUpgrade: (...all) => egress.handleUpgrade(...all),
      handleMalformed: (...all) => egress.handleMalformed(...all),
    }
  }

  async function callerFor(sandboxId: SandboxId): Promise<GatewayCaller> {
    const row = await scene.store.tables.sandboxes.get(sandboxId)
    return {
      operator: MANAGER_OPERATOR,
      policyEnvelopeId: JSON.parse(row!.document).policy_envelope_id,
      sandboxId,
      scope: {},
      credentials: 'broker',
      sentinelFor: () => undefined,
      grantFor: async () => undefined,
    }
  }

  async function inside(program: string): Promise<string> {
    const argv = ['/opt/craik/node', '--input-type=module', '-e', program]
    const { output } = await scene.manager.jobs.start(caller(), id, jobId(), { spec: exec(...argv) })
    const { stdout, stderr } = await readOutput(output)
    expect(stderr).toBe('')
    return stdout
  }

  it('TLS reaches an allowed host, and the uploaded bytes are counted', async () => {
    const stdout = await inside(`
      import { connect } from 'node:net'
      import { connect as secure } from 'node:tls'
      const socket = connect(${PORT}, '127.0.0.1')
      socket.write('CONNECT allowed.example:443 HTTP/1.1\\r\\nHost: allowed.example:443\\r\\n\\r\\n')
      socket.once('data', () => {
        const tls = secure({ socket, servername: 'allowed.example', rejectUnauthorized: false })
        const body = Buffer.alloc(3_000_000, 'x')
        tls.write('POST /up HTTP/1.1\\r\\nHost: allowed.example\\r\\nConnection: close\\r\\nContent-Length: ' + body.length + '\\r\\n\\r\\n')
        tls.write(body)
        tls.on('data', (chunk) => process.stdout.write(chunk))
      })`)
    expect(stdout).toContain('hello')
    expect(local.seen).toEqual(['POST allowed.example /up'])
    const findEnd = async () => (await scene.receipts({ kind: 'egress', phase: 'end' })).at(0)
    await expect.poll(findEnd).toMatchObject({ status: 'passed', links: { sandbox_id: id } })
    const up = (await findEnd())!.measures!.find(({ name }) => name === 'bytes_up')!.value
    expect(up).toBeGreaterThan(3_000_000)
  })

  it('every attack fails, and a replay gives the same decisions', async () => {
    const before = local.seen.length
    const source = stripTypeScriptTypes(
      readFileSync(new URL('../egress/attacks.ts', import.meta.url), 'utf8'),
    )
    const stdout = await inside(`${source}\nconsole.log(JSON.stringify(await attackAll(${PORT})))`)
    const results = JSON.parse(stdout) as { name: string; isFoughtOff: boolean; answer: string }[]
    expect(results.length).toBeGreaterThan(60)
    expect(results.filter(({ isFoughtOff }) => !isFoughtOff)).toEqual([])
    expect(local.seen.slice(before).filter((line) => !FINE.test(line))).toEqual([])
    expect(new Set(local.dialled.map((location) => location.split(':')[0]))).toEqual(
      new Set(['93.184.216.34']),
    )
    await egress.close()
    const replay = await replayLog(exportLines(scene.store.tables), async () => {})
    expect(replay.differ).toEqual([])
    expect((await scene.receipts({ kind: 'denial', capability: 'network.egress' })).length).toBeGreaterThan(5)
  })
})
