import { afterEach, describe, expect, it } from 'vitest'
import { exportLines } from '../../receipts/export-log.ts'
import { replayLog } from '../../run/replay-log.ts'
import { openTls, openTunnel, readSocket, waitForClose } from './client.fixture.ts'
import { openScene, PUBLIC, SANDBOX, type Scene, type SceneOptions } from './egress-proxy.fixture.ts'
import { removeRule } from './tokens.ts'

let scene: Scene
const begin = async (options?: SceneOptions) => {
  scene = await openScene(options)
  return scene
}
afterEach(() => scene.close())

const bodies = async () =>
  (await scene.store.bodies()).filter(({ capability }) => capability === 'network.egress')
const denials = async () => (await bodies()).filter(({ kind }) => kind === 'denial')
const rules = async () => (await denials()).map(({ decision }) => decision?.rule)
const ends = async () => (await bodies()).filter(({ phase }) => phase === 'end')

describe('a tunnel', () => {
  it('carries TLS to an allowed host, has a begin receipt before the dial, and counts its bytes', async () => {
    const begun: string[] = []
    await begin({
      web: {
        resolve: async () => {
          begun.push(...(await bodies()).map(({ phase, kind }) => `${kind} ${phase}`))
          return [PUBLIC]
        },
      },
    })
    await scene.allow('allowed.example')
    const tls = await openTls(scene.port, 'allowed.example')
    tls.write('GET /x HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\n\r\n')
    expect(await readSocket(tls)).toContain('hello')
    await expect.poll(async () => (await ends()).length).toBe(1)
    expect(begun).toEqual(['egress point', 'egress begin'])
    expect(scene.dialled).toEqual([`${PUBLIC}:443`])
    const [end] = await ends()
    expect(end).toMatchObject({ kind: 'egress', status: 'passed', links: { sandbox_id: SANDBOX } })
    expect(end!.metadata).toMatchObject({ outcome: 'closed', address: PUBLIC })
    const measured = Object.fromEntries(end!.measures!.map(({ name, value }) => [name, value]))
    expect(measured.bytes_up).toBeGreaterThan(300)
    expect(measured.bytes_down).toBeGreaterThan(500)
  })

  it.each([
    ['registry.npmjs.org', 'npm'],
    ['pypi.org', 'pypi'],
    ['files.pythonhosted.org', 'pypi'],
  ])('to %s is refused without a rule, and names the preset %s', async (host, preset) => {
    await begin()
    const { answer } = await openTunnel(scene.port, `${host}:443`)
    expect(answer.split('\r\n')[0]).toContain(`craik egress allow --preset ${preset} --sandbox ${SANDBOX}`)
  })

  it('is refused without a rule, and the response says how to allow it', async () => {
    await begin()
    const { answer } = await openTunnel(scene.port, 'allowed.example:8443')
    expect(answer).toContain(
      `HTTP/1.1 403 Forbidden by craik, allow it with: craik egress allow allowed.example:8443 --sandbox ${SANDBOX}\r\n`,
    )
    expect(answer).toContain('blocked by craik: egress to allowed.example:8443 is not allowed\n')
    expect(answer).toContain(`craik egress allow allowed.example:8443 --sandbox ${SANDBOX}`)
    expect(await denials()).toMatchObject([
      {
        target: 'allowed.example:8443',
        decision: { rule: 'egress.no_rule', replayable: true },
        links: { sandbox_id: SANDBOX },
      },
    ])
    expect(scene.lookedUp).toEqual([])
  })

  it.each([
    ['127.0.0.1:18899', 'its address is loopback'],
    ['10.0.0.1:80', 'its address is private'],
    ['169.254.169.254:80', 'its address is link-local'],
    ['[::1]:8080', 'its address is loopback'],
    ['localhost:3000', 'its address is loopback'],
    ['database:5432', 'a name without a dot belongs to a local network'],
  ])('to %s is refused without a command, because no rule can allow it', async (target, reason) => {
    await begin()
    const { answer } = await openTunnel(scene.port, target)
    expect(answer).toContain('HTTP/1.1 403 Forbidden by craik, rule egress.no_rule\r\n')
    expect(answer).toContain(`blocked by craik: egress to ${target} cannot be allowed: ${reason}\n`)
    expect(answer).not.toContain('craik egress allow')
    expect(scene.lookedUp).toEqual([])
  })

  it('of another sandbox, or of another operator, is not allowed by the rule', async () => {
    await begin()
    await scene.allow('allowed.example', { sandboxId: 'sbx_other' })
    expect((await openTunnel(scene.port, 'allowed.example:443')).answer).toContain('403')
  })

  it('is allowed by a rule for all sandboxes', async () => {
    await begin()
    await scene.allow('allowed.example', { sandboxId: null })
    const tls = await openTls(scene.port, 'allowed.example')
    tls.destroy()
  })

  it('goes to the checked address: a name that later resolves to a private address is refused and never dialled', async () => {
    await begin()
    await scene.allow('rebind.example')
    const first = await openTls(scene.port, 'rebind.example')
    expect(scene.lookedUp).toEqual(['rebind.example'])
    const { answer } = await openTunnel(scene.port, 'rebind.example:443')
    expect(answer).toContain('its address is not public')
    expect(answer).toMatch(/^HTTP\/1\.1 403 Forbidden by craik, rule egress\.not_public\r\n/)
    expect(scene.dialled).toEqual([`${PUBLIC}:443`])
    first.destroy()
    await expect.poll(async () => (await ends()).length).toBe(2)
    expect(await denials()).toMatchObject([
      { decision: { rule: 'egress.not_public', input: { addresses: ['127.0.0.1'] } } },
    ])
    expect((await ends()).map(({ status }) => status).sort()).toEqual(['blocked', 'passed'])
  })

  it('to a host that renews logins is refused despite a grant, unless the sandbox holds the login', async () => {
    let mode: 'broker' | 'forward' = 'broker'
    await begin({ egress: { credentials: () => mode } })
    await scene.allow('*.allowed.example')
    expect((await openTunnel(scene.port, 'auth.allowed.example:443')).answer).toContain('403')
    expect(await rules()).toEqual(['egress.token_endpoint'])
    mode = 'forward'
    const tls = await openTls(scene.port, 'auth.allowed.example')
    tls.destroy()
  })

  it('ends when its rule is removed', async () => {
    await begin({ egress: { limits: { recheckMs: 20 } } })
    const { rule } = await scene.allow('allowed.example')
    const tls = await openTls(scene.port, 'allowed.example')
    await scene.store.write(removeRule, { id: rule.id, operator: 'local-user:ada' })
    await waitForClose(tls)
    await scene.egress.close()
    expect((await ends())[0]).toMatchObject({ status: 'failed', metadata: { outcome: 'ended' } })
  })

  it('is not opened by a rule with an expired or revoked grant, even if the profile allows egress by default', async () => {
    await begin({ profile: 'trusted-local' })
    expect((await openTunnel(scene.port, 'allowed.example:443')).answer).toContain('403')
    await scene.allow('allowed.example')
    scene.clock.advance(3600_000)
    expect((await openTunnel(scene.port, 'allowed.example:443')).answer).toContain('403')
    expect(scene.lookedUp).toEqual([])
    expect(await rules()).toEqual(['egress.no_rule', 'egress.grant'])
  })

  it('is refused while a rule was changed outside Craik', async () => {
    await begin()
    await scene.allow('allowed.example')
    await scene.allow('store.example')
    scene.store.database.exec(
      `UPDATE egress_rules SET document = replace(document, 'store.example', 'forbidden.example')`,
    )
    for (const host of ['forbidden.example', 'allowed.example'])
      expect((await openTunnel(scene.port, `${host}:443`)).answer).toContain('403')
    expect(await rules()).toEqual(['egress.damaged_rules', 'egress.damaged_rules'])
  })

  it('is refused when no receipt can be written', async () => {
    await begin()
    await scene.allow('allowed.example')
    scene.store.database.exec('ALTER TABLE receipts RENAME TO elsewhere')
    expect((await openTunnel(scene.port, 'allowed.example:443')).answer).toContain('HTTP/1.1 503 ')
    scene.store.database.exec('ALTER TABLE elsewhere RENAME TO receipts')
    expect([scene.lookedUp, scene.dialled]).toEqual([[], []])
  })

  it.each([
    ['name_not_found', 502, { resolve: () => Promise.reject(new Error('no')) }],
    ['name_without_address', 502, { resolve: async () => [] }],
    ['lookup_timeout', 504, { resolve: () => new Promise<never>(() => {}) }],
    [
      'econnrefused',
      502,
      { dial: () => Promise.reject(Object.assign(new Error('no'), { code: 'ECONNREFUSED' })) },
    ],
    ['connect_timeout', 504, { dial: (_: string, __: number, until: AbortSignal) => until2(until) }],
  ] as const)('that fails with %s gets status %i, and the log ends it so', async (reason, status, web) => {
    await begin({ web, egress: { limits: { lookupMs: 50, connectMs: 50 } } })
    await scene.allow('allowed.example')
    expect((await openTunnel(scene.port, 'allowed.example:443')).answer).toContain(`HTTP/1.1 ${status} `)
    expect(await ends()).toMatchObject([{ status: 'failed', metadata: { outcome: reason } }])
  })

  it('without traffic ends, whether the client does not read or sends nothing', async () => {
    await begin({
      egress: { limits: { idleMs: 300, helloMs: 100 } },
      answer: (_, response) => {
        response.writeHead(200)
        const more = () => response.write(Buffer.alloc(1 << 16)) && setImmediate(more)
        more()
        response.on('drain', more)
      },
    })
    await scene.allow('allowed.example')
    const tls = await openTls(scene.port, 'allowed.example')
    tls.pause()
    tls.write('GET /endless HTTP/1.1\r\nHost: allowed.example\r\n\r\n')
    const { socket } = await openTunnel(scene.port, 'allowed.example:443')
    await waitForClose(socket)
    await expect.poll(async () => (await ends()).length, { timeout: 10_000 }).toBe(2)
    expect((await ends()).map(({ metadata }) => metadata!.outcome)).toEqual(['idle', 'idle'])
    tls.destroy()
  })

  it('above the connection limit is refused, and none stays open forever', async () => {
    await begin({ egress: { limits: { connectionsPerCaller: 2 } } })
    await scene.allow('allowed.example')
    const [one, two] = [
      await openTls(scene.port, 'allowed.example'),
      await openTls(scene.port, 'allowed.example'),
    ]
    expect((await openTunnel(scene.port, 'allowed.example:443')).answer).toContain('HTTP/1.1 429 ')
    one.destroy()
    two.destroy()
    await expect.poll(async () => (await ends()).length).toBe(2)
    ;(await openTls(scene.port, 'allowed.example')).destroy()
  })

  it('that is open when Craik stops is ended, with its end in the log', async () => {
    await begin()
    await scene.allow('allowed.example')
    const tls = await openTls(scene.port, 'allowed.example')
    await scene.egress.close()
    await waitForClose(tls)
    expect(await ends()).toMatchObject([{ metadata: { outcome: 'ended' } }])
    expect((await openTunnel(scene.port, 'allowed.example:443')).answer).toContain('503')
  })
})

describe('a flood of refusals', () => {
  it('gets single receipts at first and then one with a count; the counts add up, and replay gives each decision again', async () => {
    await begin()
    await scene.allow('allowed.example')
    await scene.allow('metadata.example')
    const requests = Array.from({ length: 150 }, (_, i) => `forbidden-${i % 7}.example:443`)
    for (let at = 0; at < requests.length; at += 25)
      await Promise.all(requests.slice(at, at + 25).map((authority) => openTunnel(scene.port, authority)))
    for (let i = 0; i < 10; i++) await openTunnel(scene.port, 'metadata.example:443')
    for (let i = 0; i < 10; i++) await openTunnel(scene.port, 'a..b:443')
    await scene.egress.close()
    const reported = await denials()
    expect(reported.length).toBeLessThan(60)
    const counts = new Map<string, number>()
    for (const { decision, metadata } of reported)
      counts.set(decision!.rule, (counts.get(decision!.rule) ?? 0) + (metadata!.count as number))
    expect(Object.fromEntries(counts)).toEqual({
      'egress.no_rule': 150,
      'egress.not_public': 10,
      'egress.malformed': 10,
    })
    const replay = await replayLog(exportLines(scene.store.tables), async () => {})
    expect(replay).toMatchObject({ differ: [], notReplayable: 0 })
    expect(replay.decisions).toBeGreaterThanOrEqual(reported.length)
  })
})

function until2(until: AbortSignal): Promise<never> {
  return new Promise((_, reject) => until.addEventListener('abort', () => reject(until.reason)))
}
