/** `craik sandbox stop` and `resume`, as a user types them, and a supervisor that is killed while they run. */
import { chownSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SandboxBody } from '../../src/operator/api/bodies.ts'
import { createRandom, SEED, SupervisorKiller } from '../faults/supervisor-kill.ts'
import { receiptsOf, requireWholeLog, withEvidence } from '../faults/supervisor-kill-receipts.ts'
import { canBe, EVERY_IDENTITY, IDENTITIES, SandboxHome } from '../sandbox-home.ts'
import { valuesOfTier } from '../tier.ts'

const ROUNDS = process.env.CRAIK_SOAK === '1' ? 50 : 3
const LIMIT_MS = 1_200_000
/** Longer than a stop or a resume takes on an idle host. */
const SPAN_MS = 1_000

describe.each(IDENTITIES)('as %s', (identity) => {
  describe.runIf(canBe(identity))('the commands', () => {
    let home: SandboxHome
    beforeAll(async () => {
      home = await SandboxHome.open({ identity })
    })
    afterAll(() => home[Symbol.asyncDispose]())

    it('stop and resume a sandbox: files stay, a detached command ends as stopped', async () => {
      const { id } = await home.create(['--name', 'box', '--idle-timeout', '2h', '--keep', '30d'])
      await home.run(['sandbox', 'exec', 'box', '--', 'sh', '-c', 'echo mine > file'])
      const { job_id } = await home.json<{ job_id: string }>([
        'sandbox',
        'exec',
        'box',
        '--detach',
        '--',
        'sleep',
        '1000',
      ])
      const stopped = await home.run(['sandbox', 'stop', 'box', '--format', 'table'])
      expect(stopped).toMatchObject({ code: 0, stdout: `  stopped  box · ${id}\n`, stderr: '' })
      expect(await home.findLeftovers(id)).toEqual([])
      const end = (await receiptsOf(home)).find(
        ({ phase, links }) => phase === 'end' && links.job_id === job_id,
      )
      expect(end).toMatchObject({ status: 'failed', metadata: { outcome: 'stopped' } })
      expect(await home.run(['sandbox', 'exec', 'box', '--', 'cat', 'file'])).toMatchObject({
        code: 84,
        stdout: '',
        stderr: 'craik: sandbox box is stopped; resume it first\n  resume it:  craik sandbox resume box\n',
      })
      const shown = await home.run(['sandbox', 'show', 'box', '--format', 'table'])
      expect(shown.stdout).toMatch(/ends +stopped when idle for 2 h · deleted 30 d after it stopped/)
      const [resumed] = await home.json<SandboxBody[]>(['sandbox', 'resume', 'box', '--format', 'json'])
      expect(resumed).toMatchObject({ id, state: 'running', ends: { idle_ms: 7_200_000 } })
      expect(await home.run(['sandbox', 'exec', 'box', '--', 'cat', 'file'])).toMatchObject({
        code: 0,
        stdout: 'mine\n',
      })
    })

    it('continue after a sandbox that fails, and exit with its code', async () => {
      const ran = await home.run(['sandbox', 'stop', 'nothing', 'box', '--format', 'jsonl'])
      expect(ran).toMatchObject({ code: 3, stderr: expect.stringContaining('unknown sandbox: nothing') })
      expect(
        ran.stdout
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line)),
      ).toMatchObject([{ name: 'box', state: 'stopped' }])
      expect(await home.run(['sandbox', 'resume', 'box'])).toMatchObject({ code: 0 })
    })

    it('refuse an ambiguous time, and a time out of range', async () => {
      for (const [args, message] of [
        [['--idle-timeout', '0'], '--idle-timeout 0 is ambiguous: it could mean immediately or never'],
        [['--idle-timeout', '1s'], '--idle-timeout "1s" is too small'],
        [['--max-lifetime', '500d'], '--max-lifetime "500d" is too large'],
        [['--keep', 'soon'], 'cannot parse --keep "soon": expected a duration'],
      ] as const)
        expect(await home.run(['sandbox', 'create', ...args])).toMatchObject({
          code: 2,
          stderr: expect.stringContaining(message),
        })
    })

    it('enforce the limits for all sandboxes together', async () => {
      await home.run(['supervisor', 'stop'])
      const config = join(home.home, 'config')
      mkdirSync(config, { recursive: true, mode: 0o700 })
      writeFileSync(join(config, 'limits.yaml'), 'running: 1\n', { mode: 0o600 })
      for (const path of [config, join(config, 'limits.yaml')]) chownSync(path, home.uid, home.uid)
      const refused = await home.run(['sandbox', 'create', '--name', 'second'])
      expect(refused).toMatchObject({ code: 82, stderr: expect.stringContaining('craik sandbox stop box') })
      await home.json(['sandbox', 'stop', 'box', '--format', 'json'])
      await home.create(['--name', 'second'])
      expect(await home.run(['sandbox', 'resume', 'box'])).toMatchObject({
        code: 82,
        stderr: expect.stringContaining('cannot start another sandbox: 1 of at most 1 are running'),
      })
    })
  })
})

/** Runs only in the tier `matrix`, because it takes a minute. */
describe.each(valuesOfTier([], EVERY_IDENTITY))('as %s', (identity) => {
  it.runIf(canBe(identity))(
    `a supervisor killed during a stop or resume (seed ${SEED}) leaves the sandbox stopped or running, with all its files`,
    { timeout: LIMIT_MS },
    async () => {
      const random = createRandom(SEED)
      await using home = await SandboxHome.open({ identity })
      const killer = new SupervisorKiller(home.home)
      const { id } = await home.create()
      await withEvidence(home, id, async () => {
        for (let round = 0; round < ROUNDS; round++) {
          await home.json(['sandbox', 'exec', id, '--detach', '--', 'sleep', '1000'])
          await home.run(['sandbox', 'exec', id, '--', 'sh', '-c', `echo ${round} >> log`])
          for (const verb of ['stop', 'resume'] as const) {
            const changing = home.run(['sandbox', verb, id, '--format', 'json'])
            await sleep(random() * SPAN_MS)
            await killer.kill()
            // The client repeats its request, so that the command succeeds whenever the supervisor is killed.
            expect(await changing).toMatchObject({ code: 0 })
            const { state } = await home.json<SandboxBody>(['sandbox', 'show', id, '--format', 'json'])
            expect(state).toBe(verb === 'stop' ? 'stopped' : 'running')
            if (verb === 'stop') expect(await home.findLeftovers(id)).toEqual([])
          }
          const lines = Array.from({ length: round + 1 }, (_, i) => `${i}\n`).join('')
          expect(await home.run(['sandbox', 'exec', id, '--', 'cat', 'log'])).toMatchObject({
            code: 0,
            stdout: lines,
          })
        }
        expect(await home.run(['sandbox', 'delete', id])).toMatchObject({ code: 0 })
      })
      await killer.waitUntilOneLeft()
      await requireWholeLog(home)
      expect(await home.findLeftovers(id)).toEqual([])
    },
  )
})
