/**
 * Interrupted streams: output can be read from any frame, input can be sent again from any byte, and memory stays
 * bounded.
 */
import { createHash, randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FRAME } from '../../../src/lib/frames.ts'
import { BYTES_TYPE } from '../../../src/operator/api/api-constants.ts'
import type { JobRequestBody } from '../../../src/operator/api/requests.ts'
import { jobPath, query } from '../../../src/sdk/api-paths.ts'
import { attachJob, runJob } from '../../../src/sdk/run-job.ts'
import { jsonOf } from '../../../src/sdk/transport.ts'
import { run as runOnHost } from '../../craik.ts'
import {
  expectRunsCommands,
  type GetInstance,
  newJobId,
  type OutputPart,
  readOutput,
  runWhole,
  sha256,
  startDetached,
  waitForJobEnd,
  waitUntil,
} from './instance.ts'

const MIB = 1024 * 1024
/**
 * More than all buffers on the way. The jobs write at least twice as much, so that unbounded buffering would exceed it.
 */
const GROWTH_BYTES = 150 * MIB
const KEPT_BYTES = 300 * MIB
const UNREAD_BYTES = 512 * MIB
/** The output counts as blocked after this many checks with the same position. */
const STILL_LOOKS = 10

export function streamContract(getInstance: GetInstance): void {
  describe('output', () => {
    it('from any frame is the rest of the output', async () => {
      const jobId = newJobId()
      const script = 'for i in $(seq 60); do echo "out $i"; echo "err $i" >&2; done; exit 9'
      await runWhole(getInstance(), { kind: 'exec', argv: ['sh', '-c', script] }, { jobId })
      const whole = await readOutput(getInstance(), jobId, 0)
      expect(whole).toMatchObject({ ended: true, gaps: [] })
      const starts = [0, ...whole.frames.map(({ after }) => after)]
      const property = fc.asyncProperty(fc.nat(starts.length - 2), async (index) => {
        const rest = await readOutput(getInstance(), jobId, starts[index]!)
        expect(rest.frames).toEqual(whole.frames.slice(index))
      })
      await fc.assert(property, { numRuns: 30, examples: [[0], [starts.length - 2]] })
    })

    it('of a running command arrives once and whole, across many interruptions', async () => {
      const jobId = newJobId()
      const script = 'i=0; while [ $i -lt 4000 ]; do echo $i; i=$((i+1)); done'
      await startDetached(getInstance(), { kind: 'exec', argv: ['sh', '-c', script] }, jobId)
      const heard: Buffer[] = []
      let at: OutputPart = { frames: [], gaps: [], position: 0, ended: false }
      for (let step = 1; !at.ended; step++) {
        at = await readOutput(getInstance(), jobId, at.position, 1 + ((step * 7) % 400))
        expect(at.gaps).toEqual([])
        heard.push(...at.frames.filter(({ type }) => type === FRAME.stdout).map(({ payload }) => payload))
      }
      const numbers = Array.from({ length: 4000 }, (_, n) => `${n}\n`)
      expect(Buffer.concat(heard).toString()).toBe(numbers.join(''))
    })

    it('from an invalid position is refused', async () => {
      const jobId = newJobId()
      await runWhole(getInstance(), { kind: 'exec', argv: ['echo', 'x'.repeat(100)] }, { jobId })
      for (const after of [3, 10_000]) {
        await expect(readOutput(getInstance(), jobId, after)).rejects.toMatchObject({ code: 'usage' })
      }
      await expectRunsCommands(getInstance().box)
    })

    it('of a detached command is stored on the disk of the sandbox', async () => {
      const jobId = newJobId()
      const script = `seq 1 40000000 | head -c ${KEPT_BYTES}`
      const before = await supervisorBytes()
      await startDetached(getInstance(), { kind: 'exec', argv: ['sh', '-c', script] }, jobId)
      await waitForJobEnd(getInstance(), jobId)
      const hash = createHash('sha256')
      const { lostBytes, result } = await attachJob(getInstance().client, getInstance().box.id, {
        jobId,
        onStdout: (chunk) => void hash.update(chunk),
      })
      expect([lostBytes, result.stdoutBytes]).toEqual([0, KEPT_BYTES])
      const expected = await runOnHost('sh', ['-c', `${script} | sha256sum`], {
        env: { PATH: process.env.PATH! },
      })
      expect(`${hash.digest('hex')}  -\n`).toBe(expected.stdout)
      expect((await supervisorBytes()) - before).toBeLessThan(GROWTH_BYTES)
      await getInstance().client.jobs.cancel(getInstance().box.id, jobId)
    })

    it('without a reader does not increase the memory of the supervisor', async () => {
      const { client, box } = getInstance()
      const jobId = newJobId()
      const before = await supervisorBytes()
      const controller = new AbortController()
      const started = Promise.withResolvers<void>()
      const never = new Promise<void>(() => {})
      const stuck = runJob(
        client,
        box.id,
        {
          kind: 'exec',
          argv: ['head', '-c', String(UNREAD_BYTES), '/dev/zero'],
          max_output_bytes: 2 * UNREAD_BYTES,
        },
        { jobId, signal: controller.signal, onStarted: () => started.resolve(), onStdout: () => never },
      )
      stuck.catch(() => {})
      await started.promise
      let peak = 0
      let position = 0
      let stillLooks = 0
      // Waits until the job has ended or is blocked. Waiting for its start or for a processor does not count as
      // blocked.
      await waitUntil(async () => {
        peak = Math.max(peak, await supervisorBytes())
        const job = await client.jobs.get(box.id, jobId)
        stillLooks = job.position > 0 && job.position === position ? stillLooks + 1 : 0
        position = job.position
        return job.state === 'ended' || stillLooks === STILL_LOOKS
      })
      controller.abort()
      expect(position).toBeGreaterThan(0)
      expect(peak - before).toBeLessThan(GROWTH_BYTES)
      await client.jobs.cancel(box.id, jobId)
      await expectRunsCommands(box)
    })

    const supervisorBytes = async () => (await getInstance().client.supervisor.status()).memory_bytes
  })

  describe('input', () => {
    const send = async (jobId: string, offset: number, bytes: Buffer, end = false) => {
      const { client, box } = getInstance()
      const response = await client.link.send({
        method: 'POST',
        path: jobPath(box.id, jobId, `/input${query({ offset, end })}`),
        body: Readable.from(bytes.length === 0 ? [] : [bytes], { objectMode: false }),
        headers: { 'content-type': BYTES_TYPE },
      })
      return (await jsonOf<{ offset: number }>(response)).offset
    }
    const cat: JobRequestBody = { kind: 'exec', argv: ['cat'], stdin: true }

    it('that is sent again from any byte arrives once', async () => {
      const piece = fc.record({ length: fc.nat(20_000), back: fc.nat(30_000) })
      const property = fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 8 }), async (pieces) => {
        const data = randomBytes(pieces.reduce((sum, { length }) => sum + length, 0))
        const jobId = newJobId()
        await startDetached(getInstance(), cat, jobId)
        let at = 0
        for (const { length, back } of pieces) {
          const from = Math.max(0, at - back)
          at += length
          expect(await send(jobId, from, data.subarray(from, at))).toBe(at)
        }
        expect(await send(jobId, at, Buffer.alloc(0), true)).toBe(at)
        const { stdout, result } = await runWhole(getInstance(), cat, { jobId })
        expect(sha256(stdout)).toBe(sha256(data))
        expect(result.stdinBytes).toBe(data.length)
      })
      await fc.assert(property, { numRuns: 8 })
    })

    it('that skips bytes is refused, and so is more input after its end', async () => {
      const jobId = newJobId()
      await startDetached(getInstance(), cat, jobId)
      expect(await send(jobId, 0, Buffer.from('abc'))).toBe(3)
      await expect(send(jobId, 4, Buffer.from('e'))).rejects.toMatchObject({ code: 'conflict' })
      expect(await send(jobId, 3, Buffer.from('d'), true)).toBe(4)
      await expect(send(jobId, 4, Buffer.from('e'))).rejects.toMatchObject({ code: 'conflict' })
      const { stdout } = await runWhole(getInstance(), cat, { jobId })
      expect(stdout.toString()).toBe('abcd')
    })
  })
}
