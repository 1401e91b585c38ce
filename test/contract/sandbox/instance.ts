/** What a part of the sandbox contract is given: a home, a live sandbox in it, and ways to run things there. */
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { FRAME, FRAME_HEADER_BYTES, type Frame, FrameReader, isInLog } from '../../../src/lib/frames.ts'
import { newId } from '../../../src/lib/ids.ts'
import type { JobRequestBody } from '../../../src/operator/api/requests.ts'
import { jobPath, query } from '../../../src/sdk/api-paths.ts'
import type { ApiClient } from '../../../src/sdk/client.ts'
import { type JobEnd, runJob } from '../../../src/sdk/run-job.ts'
import { responseChunks } from '../../../src/sdk/transport.ts'
import type { LiveSandbox, SandboxHome } from '../../sandbox-home.ts'

export interface ContractInstance {
  readonly home: SandboxHome
  readonly client: ApiClient
  /** Shared by all parts that need nothing special of a sandbox. */
  readonly box: LiveSandbox
}

export type GetInstance = () => ContractInstance

/** The program that every sandbox has, whatever else is in it. */
export const NODE_INSIDE = '/opt/craik/node'

export const newJobId = (): string => newId('job', Date.now())

export const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

export interface RunOptions {
  readonly jobId?: string
  readonly stdin?: Buffer
  /** Which sandbox; the shared one when nothing is said. */
  readonly sandbox?: LiveSandbox
}

export interface Ran extends JobEnd {
  readonly stdout: Buffer
  readonly stderr: Buffer
}

/** Runs a job to its end and keeps all that it wrote. */
export async function runWhole(
  instance: ContractInstance,
  spec: JobRequestBody,
  options: RunOptions = {},
): Promise<Ran> {
  const stdout: Buffer[] = []
  const stderr: Buffer[] = []
  const { stdin, sandbox = instance.box } = options
  const end = await runJob(instance.client, sandbox.id, spec, {
    jobId: options.jobId ?? newJobId(),
    ...(stdin && { stdin: Readable.from(stdin.length === 0 ? [] : [stdin], { objectMode: false }) }),
    onStdout: (chunk) => void stdout.push(Buffer.from(chunk)),
    onStderr: (chunk) => void stderr.push(Buffer.from(chunk)),
  })
  return { ...end, stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr) }
}

/** Starts a job and does not stay with it. */
export async function startDetached(
  instance: ContractInstance,
  spec: JobRequestBody,
  jobId: string,
): Promise<void> {
  const controller = new AbortController()
  const started = Promise.withResolvers<void>()
  const following = runJob(instance.client, instance.box.id, spec, {
    jobId,
    signal: controller.signal,
    onStarted: () => started.resolve(),
  })
  await Promise.race([started.promise, following])
  controller.abort()
  await following.catch(() => {})
}

export async function untilEnded(instance: ContractInstance, jobId: string): Promise<void> {
  await until(async () => (await instance.client.jobs.get(instance.box.id, jobId)).state === 'ended')
}

export interface Heard {
  /** Those of the log, with the position after each. */
  readonly frames: readonly (Frame & { readonly after: number })[]
  readonly gaps: readonly { readonly from: number; readonly to: number }[]
  readonly position: number
  readonly ended: boolean
}

/** Reads the output of a job from a position on, and leaves after so many frames. */
export async function hear(
  { client, box }: ContractInstance,
  jobId: string,
  after: number,
  maxFrames = Number.POSITIVE_INFINITY,
): Promise<Heard> {
  const path = jobPath(box.id, jobId, `/output${query({ after })}`)
  const response = await client.link.send({ method: 'GET', path })
  const frames: (Frame & { after: number })[] = []
  const gaps: { from: number; to: number }[] = []
  const reader = new FrameReader()
  let position = after
  let ended = false
  for await (const chunk of responseChunks(response)) {
    for (const { type, payload } of reader.push(chunk)) {
      if (type === FRAME.gap) {
        const gap = JSON.parse(payload.toString()) as { from: number; to: number }
        gaps.push(gap)
        position = gap.to
      }
      if (!isInLog(type) || frames.length === maxFrames) continue
      position += FRAME_HEADER_BYTES + payload.length
      frames.push({ type, payload: Buffer.from(payload), after: position })
      ended ||= type === FRAME.exit
    }
    if (frames.length === maxFrames) break
  }
  return { frames, gaps, position, ended }
}

/** Less than a test may take, so that it says what did not happen. */
const PATIENCE_MS = 150_000
const POLL_MS = 50

/** Waits for something that happens by itself. */
export async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  const endsMs = performance.now() + PATIENCE_MS
  while (!(await isTrue())) {
    if (performance.now() > endsMs) throw new Error(`it did not happen: ${isTrue}`)
    await sleep(POLL_MS)
  }
}

/** It still runs commands. */
export async function expectAnswers(box: LiveSandbox): Promise<void> {
  expect(await box.exec(['echo', 'here'])).toMatchObject({ code: 0, stdout: 'here\n' })
}
