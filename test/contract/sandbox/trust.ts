/** No operation without a grant, none without a receipt, and no part of a command in any receipt. */
import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readFile, tarIn, tarOut, writeFile } from '../../../src/sdk/transfer.ts'
import type { LiveSandbox } from '../../sandbox-home.ts'
import { type GetInstance, newJobId, runWhole } from './instance.ts'

interface Receipt {
  readonly id: string
  readonly kind: string
  readonly capability: string
  readonly operation: string
  readonly phase: string
  readonly status: string
  readonly target?: string
  readonly begin_id?: string
}

interface Grant {
  readonly id: string
  readonly capability: string
  readonly state: string
  readonly target: { readonly ref?: string }
}

const MARKER = 'never-in-a-receipt'
/** The whole contract performs at least this many operations that the boundary counts. */
const AT_LEAST = 100

export function trustContract(getInstance: GetInstance): void {
  const exportLog = async () => (await getInstance().home.run(['receipts', 'export'])).stdout
  const receipts = async () =>
    (await exportLog())
      .split('\n')
      .filter((line) => line.startsWith('{"body"'))
      .map((line) => (JSON.parse(line) as { readonly body: Receipt }).body)

  describe('without a grant', () => {
    let box: LiveSandbox
    beforeAll(async () => {
      const { home } = getInstance()
      box = await home.create(['--name', 'bare'])
      const grants = await home.json<Grant[]>(['grant', 'list', '--format', 'json'])
      for (const { id, state, target } of grants)
        if (state === 'usable' && target.ref === `sandbox/${box.id}`) await home.json(['grant', 'revoke', id])
    })
    afterAll(async () => {
      await allow('sandbox.delete', 'delete')
      await box.delete()
    })
    const allow = (capability: string, operation: string) =>
      getInstance().home.json([
        'grant',
        'create',
        '--capability',
        capability,
        '--operation',
        operation,
        '--target',
        `sandbox/${box.id}`,
        '--any-scope',
        '--unlimited-uses',
      ])

    it('every operation is denied with a receipt, and nothing reaches the sandbox', async () => {
      const { client } = getInstance()
      const jobId = newJobId()
      const archive = () => Readable.from([Buffer.alloc(1024)], { objectMode: false })
      const attempts: Readonly<Record<string, () => Promise<unknown>>> = {
        exec: () => runWhole(getInstance(), { kind: 'exec', argv: ['touch', 'ran'] }, { sandbox: box }),
        'buffered exec': () => box.exec(['touch', 'ran']),
        terminal: () =>
          runWhole(
            getInstance(),
            { kind: 'terminal', argv: ['touch', 'ran'], cols: 80, rows: 24 },
            { sandbox: box },
          ),
        'tar in': () => tarIn(client, box.id, 'ran', archive(), { jobId }),
        'tar out': () => tarOut(client, box.id, '.', { jobId: newJobId() }),
        read: () => readFile(client, box.id, '/etc/passwd').next(),
        stat: () => client.files.stat(box.id, '.'),
        list: () => client.files.list(box.id, '.'),
        watch: () => client.files.watch(box.id, '.').next(),
        write: () => writeFile(client, box.id, 'ran', { bytes: 1024, mode: 0o644, open: archive }),
        move: () => client.files.move(box.id, '.', 'ran'),
        remove: () => client.files.remove(box.id, '.'),
        mkdir: () => client.files.mkdir(box.id, 'ran'),
        forward: () => client.sandboxes.connectPort(box.id, 8118),
        processes: () => client.sandboxes.processes(box.id),
        metrics: () => client.sandboxes.stats(box.id),
        signal: () => client.sandboxes.signalProcess(box.id, 2, 'SIGKILL'),
        stop: () => client.sandboxes.stop(box.id),
        pause: () => client.sandboxes.pause(box.id),
        resume: () => client.sandboxes.resume(box.id),
        delete: () => box.delete(),
      }
      const before = (await receipts()).length
      const outcomes: Record<string, unknown> = {}
      for (const [name, attempt] of Object.entries(attempts))
        outcomes[name] = await attempt().then(
          () => 'done',
          (error: { readonly code?: string; readonly message: string }) => error.code ?? error.message,
        )
      expect(outcomes).toEqual(Object.fromEntries(Object.keys(attempts).map((name) => [name, 'denied'])))
      const written = (await receipts()).slice(before)
      expect(written.map(({ kind, status, target }) => [kind, status, target])).toEqual(
        Object.keys(attempts).map(() => ['denial', 'denied', `sandbox/${box.id}`]),
      )
      await allow('sandbox.exec', 'exec')
      expect(await box.exec(['sh', '-c', 'ls -A; test -w .'])).toMatchObject({ code: 0, stdout: '' })
    })

    it('a sandbox is not created', async () => {
      const { client } = getInstance()
      const count = (await client.sandboxes.list()).length
      await expect(client.sandboxes.create({ name: 'unasked' })).rejects.toMatchObject({ code: 'denied' })
      expect(await client.sandboxes.list()).toHaveLength(count)
    })
  })

  describe('the log, after all tests', () => {
    beforeAll(async () => {
      const { home, box } = getInstance()
      const argv = ['sh', '-c', `echo ${MARKER}-argv; cat`, `${MARKER}-argument`]
      const env = { MARKED: `${MARKER}-environment` }
      const spec = { kind: 'exec', argv, env, stdin: true } as const
      const { stdout } = await runWhole(getInstance(), spec, { stdin: Buffer.from(`${MARKER}-input`) })
      expect(stdout.toString()).toBe(`${MARKER}-argv\n${MARKER}-input`)
      await box.exec(['sh', '-c', `exit 3 # ${MARKER}-exec`])
      for (const { id } of await getInstance().client.sandboxes.list())
        expect((await home.run(['sandbox', 'delete', id])).code).toBe(0)
      await home.run(['supervisor', 'stop'])
    })

    it('has one end for every begin', async () => {
      const all = await receipts()
      const begins = all.filter(({ phase }) => phase === 'begin').map(({ id }) => id)
      const ends = all.filter(({ phase }) => phase === 'end').map(({ begin_id }) => begin_id)
      expect(ends.toSorted()).toEqual(begins.toSorted())
      const operations = new Set(all.map(({ capability, operation }) => `${capability} ${operation}`))
      for (const [capability, names] of Object.entries(EVERY))
        for (const name of names) expect(operations).toContain(`${capability} ${name}`)
    })

    it('contains no part of any command, its environment, its input or its output', async () => {
      expect(await exportLog()).not.toContain(MARKER)
      const { stdout } = await getInstance().home.run(['supervisor', 'logs', '--lines', '10000'])
      expect(stdout).not.toContain(MARKER)
    })

    it('verifies, every decision can be recomputed, and the boundary counted the same operations', async () => {
      const { home } = getInstance()
      const { code, stdout, stderr } = await home.run(['receipts', 'verify', '--replay', '--format', 'json'])
      expect([code, stderr]).toEqual([0, ''])
      const verified = JSON.parse(stdout)
      expect(verified).toMatchObject({
        outcome: 'ok',
        missing: [],
        boundaries: { differ: [], open: 0 },
        replay: { differ: [], not_replayable: 0, rows: { differ: [] } },
      })
      expect(verified.boundaries.operations).toBeGreaterThan(AT_LEAST)
      expect(verified.replay.agree).toBe(verified.replay.decisions)
    })
  })
}

const EVERY: Readonly<Record<string, readonly string[]>> = {
  'sandbox.create': ['create'],
  'sandbox.stop': ['stop', 'pause'],
  'sandbox.resume': ['resume'],
  'sandbox.delete': ['delete'],
  'sandbox.exec': ['exec'],
  'sandbox.terminal': ['open'],
  'sandbox.read': ['read', 'stat', 'list', 'watch', 'pack'],
  'sandbox.write': ['write', 'move', 'remove', 'mkdir', 'unpack'],
  'sandbox.forward': ['connect'],
  'sandbox.inspect': ['processes', 'metrics'],
  'sandbox.signal': ['signal'],
}
